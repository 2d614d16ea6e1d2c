"""Runs in a bucket: the same as those in a folder, also after a kill."""

import json
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
UNUSABLE = "train quickstart --out gs://missing/run", "evaluate gs://private/run"
# Each process would import JAX and gcsfs anew.
ONE_AFTER_ANOTHER = """
import json, sys
from dicejax.cli import run
print(json.dumps([run(words) for words in json.loads(sys.argv[1])]))
"""


@pytest.fixture
def bucket():
    pytest.importorskip("gcsfs", reason="gcsfs, of the extra gcs, is not installed")
    server = FakeBucket()
    yield server
    server.shutdown()
    server.server_close()


def begin(bucket, folder, *argv):
    settings = os.environ | bucket.environment | {"DICEJAX_HUGE_PAGES": "0"}
    return subprocess.Popen([sys.executable, *argv], **PIPES, cwd=folder, env=settings)


def ended(bucket, folder, *commands):
    """Return the statuses of commands, what they printed, and their errors."""
    process = begin(bucket, folder, "-c", ONE_AFTER_ANOTHER, json.dumps(commands))
    printed, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors[-3000:]
    *lines, statuses = printed.splitlines()
    return json.loads(statuses), "\n".join(lines), errors


@pytest.mark.slow
def test_a_run_killed_in_a_bucket_ends_as_the_same_run_in_a_folder(bucket, tmp_path):
    """And a bucket that cannot be used is one line, in the process that resumes."""
    keeping = {"--recording.keep_last": 1}  # so that checkpoints are deleted
    assert run(tiny(tmp_path / "whole", **keeping)) == 0

    empty = tmp_path / "empty"
    empty.mkdir()
    process = begin(bucket, empty, "-m", "dicejax", *tiny(RUN, **keeping))
    deadline = time.monotonic() + 240
    while "runs/tiny/checkpoints/6/record" not in bucket.contents:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.001)
    process.kill()
    process.communicate()
    assert "runs/tiny/result.json" not in bucket.contents
    commands = tiny(RUN, **keeping), ["evaluate", RUN], *map(str.split, UNUSABLE)
    statuses, printed, errors = ended(bucket, empty, *commands)
    assert statuses == [0, 0, 2, 2] and "resuming from step" in errors, errors[-3000:]
    assert printed.count("F1") >= 2  # of both
    assert "Traceback" not in errors
    first, second = (x for x in errors.splitlines() if x.startswith("dicejax: "))
    assert "missing" in first and "private" in second
    assert not list(empty.iterdir())  # nothing is written to a folder named gs:

    for name, (_, content) in bucket.contents.items():
        file = tmp_path / "copy" / name.removeprefix("runs/tiny/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    assert end(tmp_path / "copy") == end(tmp_path / "whole")
    steps = {file.name for file in (tmp_path / "copy/checkpoints").iterdir()}
    assert steps == {file.name for file in (tmp_path / "whole/checkpoints").iterdir()}


def test_an_address_that_orbax_cannot_write_to_is_one_line(tmp_path, capsys):
    for command in ("train", "compare"):
        assert run([command, "quickstart", "--out", "s3://bucket/run"]) == 2
        *_, line = capsys.readouterr().err.splitlines()
        assert line.startswith("dicejax: s3://bucket/run") and "gs://" in line
