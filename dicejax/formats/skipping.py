"""Errors of single examples: raised, or counted while the rest is read."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

from dicejax.data import tags
from dicejax.errors import Flaw, InputError, quote, suggestion, truncate

_TWO_TAGS = re.compile(r"[|;,+/&\s#][BIESMLU]-")

OnError = Callable[[InputError], None]
"""Called with the error of each example that is skipped."""


def report(error: InputError, on_error: OnError | None) -> None:
    """Raise the error, or pass it to `on_error`."""
    if on_error is None:
        raise error from None
    on_error(error)


class Skipped:
    """Counter of skipped examples, the `on_error` of readers.

    The first `keep` messages are kept. Another, with `done="repaired"`, counts repairs.
    """

    def __init__(self, keep: int = 20, done: str = "left out"):
        self.count = 0
        self.messages: list[str] = []
        self._keep, self._done = keep, done

    def __call__(self, error: InputError) -> None:
        """Count one example."""
        self.count += 1
        if len(self.messages) < self._keep:
            self.messages.append(str(error))

    def __str__(self) -> str:
        """Format the count, then one line per reason."""
        rest = self.count - len(self.messages)
        more = [f"  and {rest} more"] if rest else []
        indented = [f"  {message}" for message in self.messages]
        head = f"{self.count} {self._done}" + ":" * bool(self.count)
        return "\n".join([head, *indented, *more])


def count(number: int, noun: str) -> str:
    """Return a number of things, such as "1 column" or "2 columns"."""
    return f"{number} {noun}{'s' * (number != 1)}"


def check_label(label: str, choices: Collection[str] | None) -> None:
    """Raise `Flaw` if a label is not in a list; None allows any but the empty one."""
    if choices is None:
        if not label:
            raise Flaw("the label is empty", "name one")
    elif label not in choices:
        raise Flaw(f"label {quote(label)} is unknown", did_you_mean(label, choices))


def check_tag(tag: str, scheme: str | None, do: str = "correct it") -> None:
    """Raise `Flaw` if a tag names no type or is not of a scheme, of any if None."""
    try:
        prefix, kind = tags.parse(tag, scheme)
    except ValueError as error:
        raise Flaw(str(error), do) from None
    if _TWO_TAGS.search(kind):
        what = f"{quote(tag)} is two tags in one column"
        raise Flaw(what, "keep one: entities within others are not read")
    if prefix != "O" and not kind:
        raise Flaw(f"tag {quote(tag)} names no type ({tags.forms(scheme)})", do)


def did_you_mean(name: str, choices: Collection[str]) -> str:
    """Suggest names that look alike, or list all."""
    names = truncate(", ".join(sorted(choices)), 240)
    otherwise = f"name one of {names}" if choices else "there is none"
    return suggestion(name, choices) or otherwise
