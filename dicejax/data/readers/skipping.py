"""Errors of single examples: raised, or counted while the rest is read."""

from __future__ import annotations

from collections.abc import Callable, Collection

from dicejax.data import tags
from dicejax.errors import Flaw, InputError, quote, suggestion, truncate

OnError = Callable[[InputError], None]
"""Called with the error of each example that is skipped."""


def report(error: InputError, on_error: OnError | None) -> None:
    """Raise the error, or pass it to `on_error`.

    Raises:
      InputError: there is no `on_error`.
    """
    if on_error is None:
        raise error from None
    on_error(error)


class Skipped:
    """Counter of skipped examples, the `on_error` of readers.

    The first `keep` messages are kept. Another, with `done="repaired"`, counts repairs.

    >>> skipped = Skipped(keep=1)
    >>> for line in (3, 7):
    ...     skipped(InputError.at("dev.tsv", line, "the text is empty", "mend it"))
    >>> skipped.count
    2
    >>> print(skipped)
    2 left out:
      dev.tsv:3: the text is empty; mend it
      and 1 more
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
    """Raise if a label is not in a list; None allows any but the empty one.

    >>> check_label("NOUN", ["NOUN", "VERB"])
    >>> check_label("whatever", None)

    Raises:
      Flaw: the label is not allowed.
    """
    if choices is None:
        if not label:
            raise Flaw("the label is empty", "name one")
    elif label not in choices:
        raise Flaw(f"label {quote(label)} is unknown", did_you_mean(label, choices))


def check_tag(tag: str, scheme: str | None, do: str = "correct it") -> None:
    """Raise if a tag is not of a scheme, of any if that is None, or names no type.

    Raises:
      Flaw: with the advice `do`.
    """
    try:
        prefix, kind = tags.parse(tag, scheme)
    except ValueError as error:
        raise Flaw(str(error), do) from None
    if prefix != "O" and not kind:
        raise Flaw(f"tag {quote(tag)} names no type ({tags.forms(scheme)})", do)


def did_you_mean(name: str, choices: Collection[str]) -> str:
    """Suggest names that look alike, or list all.

    >>> did_you_mean("NUON", ["NOUN", "VERB"])
    'did you mean NOUN?'
    >>> did_you_mean("x", ["NOUN", "VERB"])
    'name one of NOUN, VERB'
    """
    names = truncate(", ".join(sorted(choices)), 240)
    otherwise = f"name one of {names}" if choices else "there is none"
    return suggestion(name, choices) or otherwise
