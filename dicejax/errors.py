"""Errors that are told in one line."""

from __future__ import annotations

import os


class InputError(Exception):
    """Something the user gave cannot be used.

    The message is one line that says where, what, and what to do; the command line
    prints it alone, without a traceback, and exits with status 2.
    """

    @classmethod
    def at(
        cls, path: str | os.PathLike[str], line: int | None, what: str, do: str
    ) -> InputError:
        """Say where in a file, what is wrong, and what to do.

        >>> print(InputError.at("dev.txt", 7, "tag 'X-PER' is unknown", "correct it"))
        dev.txt:7: tag 'X-PER' is unknown; correct it

        Args:
          path: the file.
          line: counted from 1; None where the whole file is meant.
          what: is wrong.
          do: what mends it.
        """
        where = os.fspath(path) if line is None else f"{os.fspath(path)}:{line}"
        return cls(f"{where}: {what}; {do}")


class Diverged(Exception):
    """Training has gone where no gradient is finite; the message says what to do."""


def first_line(error: BaseException) -> str:
    r"""Return the first line of what an error says, or its name where it is silent.

    >>> first_line(OSError("no room\nin the folder")), first_line(KeyError())
    ('no room', 'KeyError')
    """
    return (str(error).strip() or type(error).__name__).splitlines()[0]
