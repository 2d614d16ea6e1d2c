"""Runs in a bucket: the same as those in a folder, also after a kill."""

import os
import subprocess
import sys
import time

import pytest

from dicejax.cli import run

from ..training.commands import PIPES
from .commands import end, tiny
from .fake_bucket import NAME, FakeBucket

RUN = f"gs://{NAME}/runs/tiny"


@pytest.fixture
def bucket():
    pytest.importorskip("gcsfs", reason="gcsfs, of the extra gcs, is not installed")
    server = FakeBucket()
    yield server
    server.shutdown()
    server.server_close()


def begin(bucket, folder, *words):
    settings = os.environ | bucket.environment | {"DICEJAX_HUGE_PAGES": "0"}
    argv = [sys.executable, "-m", "dicejax", *words]
    return subprocess.Popen(argv, **PIPES, cwd=folder, env=settings)


def finished(bucket, folder, *words):
    process = begin(bucket, folder, *words)
    printed, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors[-3000:]
    return printed + errors


@pytest.mark.slow
def test_a_run_killed_in_a_bucket_ends_as_the_same_run_in_a_folder(bucket, tmp_path):
    keeping = {"--recording.keep_last": 1}  # so that checkpoints are deleted
    assert run(tiny(tmp_path / "whole", **keeping)) == 0

    empty = tmp_path / "empty"
    empty.mkdir()
    process = begin(bucket, empty, *tiny(RUN, **keeping))
    deadline = time.monotonic() + 240
    while "runs/tiny/checkpoints/6/record" not in bucket.contents:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.001)
    process.kill()
    process.communicate()
    assert "runs/tiny/result.json" not in bucket.contents
    text = finished(bucket, empty, *tiny(RUN, **keeping))
    assert "resuming from step" in text
    assert "F1" in finished(bucket, empty, "evaluate", RUN)
    assert not list(empty.iterdir())  # nothing is written to a folder named gs:

    for name, (_, content) in bucket.contents.items():
        file = tmp_path / "copy" / name.removeprefix("runs/tiny/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    assert end(tmp_path / "copy") == end(tmp_path / "whole")
    steps = {file.name for file in (tmp_path / "copy/checkpoints").iterdir()}
    assert steps == {file.name for file in (tmp_path / "whole/checkpoints").iterdir()}


@pytest.mark.parametrize(
    "command", ["train quickstart --out gs://missing", "evaluate gs://private"]
)
def test_a_bucket_that_cannot_be_used_is_one_line(bucket, tmp_path, command):
    words, name = f"{command}/run".split(), command.partition("gs://")[2]
    process = begin(bucket, tmp_path, *words)
    _, errors = process.communicate(timeout=300)
    *_, line = errors.splitlines()
    assert process.returncode == 2 and "Traceback" not in errors, errors[-3000:]
    assert line.startswith("dicejax: ") and name in line, errors[-3000:]
    assert not list(tmp_path.iterdir())


def test_an_address_that_orbax_cannot_write_to_is_one_line(tmp_path, capsys):
    for command in ("train", "compare"):
        assert run([command, "quickstart", "--out", "s3://bucket/run"]) == 2
        *_, line = capsys.readouterr().err.splitlines()
        assert line.startswith("dicejax: s3://bucket/run") and "gs://" in line
