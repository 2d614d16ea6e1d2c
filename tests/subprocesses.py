"""Python in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def python(*words, cwd=ROOT, **env):
    """Run Python, which finds what this process does; return it after status 0."""
    paths = os.pathsep.join([str(ROOT), *sys.path])
    done = subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": paths} | env,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done
