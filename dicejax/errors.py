"""Errors that are reported in one line, without a traceback."""

from __future__ import annotations

import difflib
import os
import signal
from collections.abc import Iterable


class InputError(Exception):
    """Invalid user input.

    The message is one line that says where, what, and what to do; the command line
    prints it without a traceback and exits with status 2.
    """

    @classmethod
    def at(
        cls, path: str | os.PathLike[str], line: int | None, what: str, do: str
    ) -> InputError:
        """Return an error on a line of a file: the problem and its remedy.

        >>> print(InputError.at("dev.txt", 7, "tag 'X-PER' is unknown", "correct it"))
        dev.txt:7: tag 'X-PER' is unknown; correct it
        """
        where = os.fspath(path) if line is None else f"{os.fspath(path)}:{line}"
        return cls(f"{where}: {what}; {do}")


class Diverged(Exception):
    """Training reached parameters without a finite gradient."""


class Stopped(Exception):
    """A signal stopped the run, whose state is saved and can be resumed.

    Attributes:
      step: last step taken.
      status: exit status, 128 plus the signal's number.
    """

    def __init__(self, step: int, number: int):
        super().__init__(f"stopped by {signal.Signals(number).name} after step {step}")
        self.step = step
        self.status = 128 + number


def hint(name: str, known: Iterable[str]) -> str:
    """Return the end of an error message that suggests a known name.

    >>> hint("trian", ["train", "predict"])
    '; did you mean train?'
    """
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""


def first_line(error: BaseException) -> str:
    r"""Return the first line of an error's message, or its type's name if empty.

    >>> first_line(OSError("no room\nin the folder")), first_line(KeyError())
    ('no room', 'KeyError')
    """
    return (str(error).strip() or type(error).__name__).splitlines()[0]
