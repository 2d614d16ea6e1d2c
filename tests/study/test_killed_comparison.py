"""A comparison killed repeatedly ends with the same report."""

import os
import random
import re
import shutil
import subprocess
import sys
import time

import pytest

from ..small_project import EXPERIMENT

KILLS = 3
WORDS = ["compare", "mine.py", "--losses", "dice", "--seeds", "2", "--out", "cmp"]
WORDS += ["--training.epochs", "3", "--recording.checkpoint_every", "2"]
REPORTS = ("comparison.json", "report.md", "report.html")


def begin(folder, cache):
    environment = os.environ | {
        "DICEJAX_HUGE_PAGES": "0",  # no second start, so that the process is known
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    start = "from dicejax.cli import main; main()"
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    argv = [sys.executable, "-c", start, *WORDS]
    return subprocess.Popen(argv, cwd=folder, env=environment, **pipes)


def finish(folder, cache):
    began = time.monotonic()
    process = begin(folder, cache)
    printed, errors = process.communicate(timeout=500)
    assert process.returncode == 0, errors[-3000:]
    return printed, time.monotonic() - began


def without_times(text):
    """Leave out training times, which no two trainings share."""
    text = re.sub(r" \(about [\d,]+ more minutes? of training\)", "", text)
    text = re.sub(r"^## Training time\n.*?(?=^## )", "", text, flags=re.M | re.S)
    return re.sub(
        r'<section aria-labelledby="time">.*?</section>', "", text, flags=re.S
    )


@pytest.mark.slow
@pytest.mark.exhaustive
def test_kills_change_nothing_of_the_report(project):
    # No path is in a file, so that reports can be equal.
    (project / "mine.py").write_text(EXPERIMENT.format(folder="data"))
    cache, killed = project / "compiled", project / "killed"
    killed.mkdir()
    shutil.copytree(project / "data", killed / "data")
    shutil.copy(project / "mine.py", killed)
    printed, seconds = finish(project, cache)
    rng, page = random.Random(7), killed / "cmp/report.html"
    for _ in range(KILLS):
        process = begin(killed, cache)
        # Within the time of the whole comparison, starting included.
        time.sleep(rng.uniform(0.2, 0.8) * seconds)
        assert process.poll() is None or page.exists()
        process.kill()
        process.communicate()
        page.unlink(missing_ok=True)
    again, _ = finish(killed, cache)
    assert without_times(again) == without_times(printed)
    for name in REPORTS:
        expected = without_times((project / "cmp" / name).read_text())
        assert without_times((killed / "cmp" / name).read_text()) == expected, name
