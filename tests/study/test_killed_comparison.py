"""A comparison killed repeatedly ends with the same report."""

import os
import random
import re
import subprocess
import sys
import time

import pytest

from ..small_project import CORPUS, EXPERIMENT

KILLS = 3
WORDS = ["compare", "mine.py", "--losses", "dice", "--seeds", "2", "--out", "cmp"]
WORDS += ["--training.epochs", "3", "--recording.checkpoint_every", "2"]
REPORTS = ("comparison.json", "report.md", "report.html")


def project(folder):
    """A folder whose path none of its files contains, so that reports can be equal."""
    (folder / "data").mkdir(parents=True)
    for name in ("train.txt", "dev.txt", "test.txt"):
        (folder / "data" / name).write_text(CORPUS * (16 if name == "train.txt" else 2))
    (folder / "mine.py").write_text(EXPERIMENT.format(folder="data"))
    return folder


def begin(folder, cache):
    environment = os.environ | {
        "DICEJAX_HUGE_PAGES": "0",  # no second start, so that the process is known
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    start = "from dicejax.cli import main; main()"
    return subprocess.Popen(
        [sys.executable, "-c", start, *WORDS],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=environment,
    )


def finish(folder, cache):
    began = time.monotonic()
    process = begin(folder, cache)
    printed, errors = process.communicate(timeout=500)
    assert process.returncode == 0, errors[-3000:]
    return printed, time.monotonic() - began


def without_times(text):
    """Leave out training times, which no two trainings share."""
    text = re.sub(r" \(about [\d,]+ more minutes of training\)", "", text)
    text = re.sub(r"^## Training time\n.*?(?=^## )", "", text, flags=re.M | re.S)
    return re.sub(
        r'<section aria-labelledby="time">.*?</section>', "", text, flags=re.S
    )


@pytest.mark.slow
@pytest.mark.exhaustive
def test_kills_change_nothing_of_the_report(tmp_path):
    cache = tmp_path / "compiled"
    whole, killed = project(tmp_path / "whole"), project(tmp_path / "killed")
    printed, seconds = finish(whole, cache)
    rng, kills, before = random.Random(7), 0, 0
    while kills < KILLS:
        process = begin(killed, cache)
        # Within the time of the whole comparison, starting included.
        time.sleep(rng.uniform(0.2, 0.8) * seconds)
        assert process.poll() is None or (killed / "cmp" / "report.html").exists()
        process.kill()
        process.communicate()
        kills += 1
        before = max(before, len(list((killed / "cmp").rglob("result.json"))))
        if (killed / "cmp" / "report.html").exists():
            (killed / "cmp" / "report.html").unlink()
    again, _ = finish(killed, cache)
    assert without_times(again) == without_times(printed)
    for name in REPORTS:
        ours = without_times((killed / "cmp" / name).read_text())
        assert ours == without_times((whole / "cmp" / name).read_text()), name
