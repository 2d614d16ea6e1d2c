"""Sentences of comparisons: templates beside this file, in which each stands whole.

A macro of a template is a sentence or a paragraph of given values. Lines of a template
are joined by blanks; a blank line is a line break in the text.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2

from dicejax.errors import quote, visible

FOLDER = Path(__file__).parent


def signed(value: float, digits: int = 2) -> str:
    """Write a difference with its sign.

    >>> signed(0.5), signed(-13.42, 1)
    ('+0.50', '−13.4')
    """
    return f"{value:+.{digits}f}".replace("-", "\N{MINUS SIGN}")


def counted(number: int, noun: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "example"), counted(1200, "loss")
    ('1 example', '1,200 losses')
    """
    ending = "es" if noun.endswith("s") else "s"
    return f"{number:,} {noun}{ending if number != 1 else ''}"


def listed(names: Sequence[str]) -> str:
    """Return names as a part of a sentence, of more than three the first two.

    >>> listed(["a"]), listed("abc"), listed("abcd")
    ('a', 'a, b and c', 'a, b and others')
    """
    *first, last = names if len(names) < 4 else [*names[:2], "others"]
    return f"{', '.join(first)} and {last}" if first else last


def points(share: float, digits: int = 1) -> str:
    """Return a share of 1 as points of 100.

    >>> points(0.125), points(0.5, 0)
    ('12.5', '50')
    """
    return f"{100 * share:.{digits}f}"


def short(number: float) -> str:
    """Return a number without zeros at its end.

    >>> short(0.5), short(2.0)
    ('0.5', '2')
    """
    return f"{number:g}"


def p_value(p: float) -> str:
    """Return a p-value with its sign.

    >>> p_value(0.0001), p_value(0.0234)
    ('< 0.001', '= 0.023')
    """
    return "< 0.001" if p < 0.001 else f"= {p:.2g}"


_COMMANDS = {  # of characters that LaTeX reads as others
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}


def tex(text: str) -> str:
    r"""Escape what LaTeX reads as commands.

    >>> print(tex("a_b & 5%"))
    a\_b \& 5\%
    """
    return visible(text).translate({ord(sign): x for sign, x in _COMMANDS.items()})


def paragraphs(text: str) -> list[str]:
    r"""Return the paragraphs of a macro, without those that say nothing.

    >>> paragraphs("One.\n\nTwo.")
    ['One.', 'Two.']
    """
    return [line.strip() for line in text.split("\n") if line.strip()]


@functools.cache
def sentences(name: str) -> Any:
    """Return the macros of a template as functions, which take values by name."""
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_source), undefined=jinja2.StrictUndefined
    )
    environment.filters |= {
        "counted": counted,
        "digits": lambda crossed: 2 if crossed.high - crossed.low < 0.1 else 1,
        "in_math": lambda share: f"{100 * share:+.2f}",
        "listed": listed,
        "p_value": p_value,
        "points": points,
        "quote": quote,
        "short": short,
        "tex": tex,
        "signed": lambda share, digits=2: signed(100 * share, digits),
    }
    return environment.get_template(name).module


def _source(name: str) -> str:
    """Return a template with the lines of each paragraph joined."""
    source = (FOLDER / f"{name}.jinja").read_text(encoding="utf-8")
    return "\n".join(" ".join(x.split()) for x in re.split(r"\n\s*\n", source))
