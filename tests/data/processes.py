"""The same program in processes that hash otherwise."""

import subprocess
import sys


def printed_by_processes(code):
    """Return the outputs of a program under two hash seeds, as a set."""
    return {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
