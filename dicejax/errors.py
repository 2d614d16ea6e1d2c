"""Errors that are reported in one line, and text made fit for one."""

from __future__ import annotations

import dataclasses
import difflib
import os
import re
import reprlib
import signal
from collections.abc import Iterable
from typing import Literal

_LONGEST = 2000  # characters of a message
# Control characters, separators of lines, reversals of direction, half surrogates.
_UNSEEN = re.compile(r"[\0-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_BRIEF = reprlib.Repr()
_BRIEF.maxstring = _BRIEF.maxother = _BRIEF.maxlong = 80


@dataclasses.dataclass(frozen=True)
class Truncation:
    """A warning of gold or input that is cut off, with the setting that mends it.

    The last lines of `train` and `evaluate` repeat it, and so does the report.
    """

    kind: Literal["gold", "input"]  # gold that is cut off counts as missed
    text: str

    def __str__(self) -> str:
        return self.text


class InputError(Exception):
    """Invalid user input.

    The message is one line that says where, what, and what to do; the command line
    prints it without a traceback and exits with status 2. Control characters in it are
    made visible, and a very long one is shortened in the middle.
    """

    def __init__(self, message: str):
        super().__init__(truncate(visible(message), _LONGEST))

    @classmethod
    def at(
        cls, path: str | os.PathLike[str], line: int | None, fault: str, remedy: str
    ) -> InputError:
        """Return an error on a line of a file: the problem and its remedy.

        >>> print(InputError.at("dev.txt", 7, "tag 'X-PER' is unknown", "correct it"))
        dev.txt:7: tag 'X-PER' is unknown; correct it
        """
        where = os.fspath(path) if line is None else f"{os.fspath(path)}:{line}"
        return cls(f"{where}: {fault}; {remedy}")


class Flaw(Exception):
    """An error in data and its remedy, raised by code that does not know the file.

    Its line in the text, where that is known, is counted from 1.
    """

    def __init__(self, fault: str, remedy: str, line: int | None = None):
        super().__init__(fault, remedy)
        self.fault, self.remedy, self.line = fault, remedy, line

    def at(
        self, path: str | os.PathLike[str], line: int | None, where: str = ""
    ) -> InputError:
        """Return the error with its place.

        >>> print(Flaw("has no 'text'", "add it").at("dev.json", None, "record 3"))
        dev.json: record 3: has no 'text'; add it
        """
        fault = f"{where}: {self.fault}" if where else self.fault
        return InputError.at(path, line, fault, self.remedy)


class Diverged(Exception):
    """Training reached parameters without a finite gradient."""


class Stopped(Exception):
    """A signal stopped the run, whose state is saved and can be resumed.

    The exit status is 128 plus the signal's number.
    """

    def __init__(self, step: int, number: int):
        super().__init__(f"stopped by {signal.Signals(number).name} after step {step}")
        self.step = step
        self.status = 128 + number


def visible(text: str, keep: str = "") -> str:
    r"""Return a text with escapes for its control characters, by default on one line.

    These would move the cursor of a terminal, or show other text than there is. What
    was JSON without line breaks still is. Characters to keep are left as they are.

    >>> print(visible("B-\x1b[31mPER\n\u202efdp.exe"))
    B-\x1b[31mPER\n\u202efdp.exe
    """
    for character in set(_UNSEEN.findall(text)).difference(keep):
        escaped = character.encode("unicode_escape").decode()
        if character >= "\x7f":
            escaped = f"\\u{ord(character):04x}"  # as JSON has it
        text = text.replace(character, escaped)
    return text


def quote(value: object) -> str:
    r"""Return input as a message repeats it: its `repr`, of at most 80 characters.

    >>> print(quote("B-PER"), quote("B\x1b"))
    'B-PER' 'B\x1b'
    >>> len(quote("x" * 1_000_000)), len(quote([["x" * 50] * 50] * 50))
    (80, 80)
    """
    return truncate(_BRIEF.repr(value), 80)


def truncate(text: str, limit: int) -> str:
    """Return a text without its middle if it has more characters than the limit.

    >>> truncate("ABCDEFGHIJKLMNOPQRSTUVWXYZ", 16)
    'ABCDEFGHI...WXYZ'
    """
    if len(text) <= limit:
        return text
    end = limit // 4
    return f"{text[: limit - end - 3]}...{text[-end:]}"


def suggestion(name: str, choices: Iterable[str]) -> str:
    """Suggest names that look alike; empty where none does.

    >>> suggestion("NUON", ["NOUN", "VERB"]), suggestion("x", ["NOUN", "VERB"])
    ('did you mean NOUN?', '')
    """
    if len(name) > 100:  # the search takes quadratic time
        return ""
    short = [choice for choice in choices if len(choice) <= 100]
    close = difflib.get_close_matches(name, short)
    return f"did you mean {' or '.join(close)}?" if close else ""


def hint(name: str, choices: Iterable[str]) -> str:
    """Return the end of an error message that suggests a valid name.

    >>> hint("trian", ["train", "predict"])
    '; did you mean train?'
    """
    return f"; {text}" if (text := suggestion(name, choices)) else ""


def first_line(error: BaseException) -> str:
    r"""Return the first line of an error's message, or its type's name if empty.

    >>> first_line(OSError("no room\nin the folder")), first_line(KeyError())
    ('no room', 'KeyError')
    """
    line = (str(error).strip() or type(error).__name__).split("\n")[0]
    return truncate(line.strip(), 400)
