"""Changes as strangers make them: each applied to a copy, with the tests it brings.

    python tests/strangers/apply.py [NAME ...]

prints for each change the files and lines that it touches outside of the tests, and
what its tests say. A patch that no longer applies, or that needs more files than
`MOST`, says that the package has become harder to extend.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
MOST = {
    "encoder": 5,
    "feedback": 3,
    "format": 2,
    "loss": 3,
    "metric": 2,
    "optimizer": 1,
    "own_loss": 1,
}
"""Files outside of the tests that each change may touch, at most."""
TESTS = {"loss": ["tests/losses", "-k", "generalized_cross_entropy"]}
"""What pytest runs where that is not the test files which a change touches."""


def touched(name: str) -> dict[str, int]:
    """Return the lines that a change adds or removes, by file."""
    command = ["git", "apply", "--numstat", str(HERE / f"{name}.patch")]
    table = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True
    )
    rows = (line.split("\t") for line in table.stdout.splitlines())
    return {file: int(added) + int(removed) for added, removed, file in rows}


def copy_with(name: str, folder: Path) -> Path:
    """Return a copy of the repository with a change, in a folder.

    Raises:
      CalledProcessError: the patch does not apply.
    """
    copy = folder / name
    skipped = shutil.ignore_patterns("__pycache__", ".*", "*.ipynb", "runs", "scores")
    copy.mkdir()
    for part in ("dicejax", "docs", "experiments", "tests"):
        shutil.copytree(ROOT / part, copy / part, ignore=skipped, symlinks=True)
    for part in ("setup.cfg", "pyproject.toml"):
        shutil.copy(ROOT / part, copy)
    # The row of a table of measured speeds is last in encoder.patch, with context from
    # behind it alone, or the patch would not apply after the next measurement.
    command = ["git", "apply", str(HERE / f"{name}.patch")]
    # Outside of the repository, or git would apply what is below its root alone.
    environment = os.environ | {"GIT_CEILING_DIRECTORIES": str(folder)}
    subprocess.run(command, cwd=copy, check=True, env=environment)
    return copy


def run_tests(name: str, copy: Path) -> subprocess.CompletedProcess[str]:
    """Run the tests of a change in a copy, with the package of the copy."""
    is_test = re.compile(r"tests/(.*/)?test_\w+\.py").fullmatch
    files = TESTS.get(name) or [*filter(is_test, touched(name))]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files]
    return subprocess.run(
        command,
        cwd=copy,
        env=os.environ | {"PYTHONPATH": str(copy)},
        capture_output=True,
        text=True,
    )


def main(names: list[str]) -> int:
    """Print a row per change; return 1 if tests fail or a change has grown."""
    status = 0
    print(f"{'change':12}{'files':>6}{'lines':>7}  tests")
    for name in names or sorted(MOST):
        lines = touched(name)
        ours = {file: n for file, n in lines.items() if not file.startswith("tests/")}
        with tempfile.TemporaryDirectory() as folder:
            result = run_tests(name, copy_with(name, Path(folder)))
        last = (result.stdout.splitlines() or [result.stderr])[-1]
        print(f"{name:12}{len(ours):6}{sum(ours.values()):7}  {last.strip('= ')}")
        status |= result.returncode != 0 or len(ours) > MOST[name]
        if result.returncode:
            print(result.stdout[-2000:], result.stderr[-2000:], file=sys.stderr)
    return int(status)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", choices=[[], *sorted(MOST)])
    sys.exit(main(parser.parse_args().names))
