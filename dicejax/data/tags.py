"""Tag schemes: spans of words to one tag per word, and back.

| scheme | one word | several words | remark                                   |
| ------ | -------- | ------------- | ---------------------------------------- |
| IOB1   | I        | I I I         | B begins a span only right after another |
|        |          |               | of the same type; CoNLL-2003 as released |
| BIO    | B        | B I I         | also called IOB2                         |
| IOBES  | S        | B I E         | also called BIOES                        |
| BMES   | S        | B M E         | M for I; common for Chinese              |
| BILOU  | U        | B I L         | IOBES in other letters                   |

A tag is `O`, or a prefix, the first `-` and a type; the type may hold further `-`;
`prefixed` reorders what is written otherwise. To
convert between schemes, decode and encode: `encode(spans(tags, a), len(tags), b)`.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, NamedTuple

from dicejax.errors import quote

Scheme = Literal["IOB1", "BIO", "IOBES", "BMES", "BILOU"]

PREFIXES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "IOB1": ("B", "I"),
        "BIO": ("B", "I"),
        "IOBES": ("B", "I", "E", "S"),
        "BMES": ("B", "M", "E", "S"),
        "BILOU": ("B", "I", "L", "U"),
    }
)
"""The prefixes that the tags of each scheme may have besides `O`."""

_ALL_PREFIXES = tuple(dict.fromkeys("".join(map("".join, PREFIXES.values()))))
_BEGINS = frozenset("BSU")  # prefixes that begin a span wherever they are
_ENDS = frozenset("ESLU")  # those that end it
_SUFFIXED = re.compile(r"(.+)[-_]([BIESMLU])")
_UNDERSCORED = re.compile(r"([BIESMLU])_(.+)")
# What decoding calls a span whose tag names no type, such as a bare "B".
_NO_TYPE = "_"


class Span(NamedTuple):
    """Words `start` to `end`, `end` excluded, and their type.

    >>> span = Span("PER", 0, 2)
    >>> ["John", "Smith", "slept"][span.start : span.end]
    ['John', 'Smith']
    """

    type: str
    start: int
    end: int


def spans(tags: Sequence[str], scheme: str) -> list[Span]:
    """Decode the tags of one sentence; any sequence of the scheme's tags is valid.

    They are read as conlleval and seqeval 1.2.2 (default mode) read them; M, which
    seqeval does not know, as I, and L and U as E and S. A span begins at B and at S,
    anywhere, and at I, M or E when no span is open or the open one has another type. It
    ends before the next beginning, before O, right after E or S, or with the sentence.
    So IOB1 and BIO decode alike. A prefix without a type, such as a bare `B`, has the
    type `_`.

    >>> decoded = spans(["I-PER", "I-PER", "O", "B-LOC", "B-LOC"], "BIO")
    >>> [tuple(span) for span in decoded]
    [('PER', 0, 2), ('LOC', 3, 4), ('LOC', 4, 5)]

    Raises:
      ValueError: the scheme is unknown, or a tag has no prefix of it.
    """
    _check_scheme(scheme)
    result: list[Span] = []
    kind, start = None, 0  # the open span; kind is None while none is open
    for place, tag in enumerate(tags):
        if tag == "O" and kind is None:  # most words, so this is asked first
            continue
        prefix, type_ = parse(tag, scheme)
        type_ = type_ or _NO_TYPE
        if kind is not None and (prefix == "O" or prefix in _BEGINS or type_ != kind):
            result.append(Span(kind, start, place))
            kind = None
        if prefix == "O":
            continue
        if kind is None:
            kind, start = type_, place
        if prefix in _ENDS:
            result.append(Span(kind, start, place + 1))
            kind = None
    if kind is not None:
        result.append(Span(kind, start, len(tags)))
    return result


def encode(spans: Iterable[Span], length: int, scheme: str) -> list[str]:
    """Write spans as tags; `spans` decodes them again to the same spans.

    >>> encode([Span("PER", 0, 2), Span("LOC", 3, 4)], 4, "IOBES")
    ['B-PER', 'E-PER', 'O', 'S-LOC']

    Raises:
      ValueError: spans overlap, or one is empty, untyped or outside; or an unknown
        scheme.
    """
    _check_scheme(scheme)
    tags = ["O"] * length
    previous = Span("", 0, 0)
    for span in sorted(spans, key=lambda span: span.start):
        if not 0 <= span.start < span.end <= length:
            raise ValueError(f"{span} does not fit a sentence of {length} words")
        if not span.type:
            raise ValueError(f"{span} has no type")
        if span.start < previous.end:
            raise ValueError(f"{span} overlaps {previous}; tags hold flat spans only")
        touches = (previous.type, previous.end) == (span.type, span.start)
        inner = "M" if scheme == "BMES" else "I"
        prefixes = "B" + inner * (span.end - span.start - 1)
        if scheme in ("IOBES", "BMES", "BILOU"):
            single, last = ("U", "L") if scheme == "BILOU" else ("S", "E")
            prefixes = single if len(prefixes) == 1 else prefixes[:-1] + last
        elif scheme == "IOB1" and not touches:
            prefixes = "I" * len(prefixes)  # B only right after a span of the type
        tags[span.start : span.end] = [f"{prefix}-{span.type}" for prefix in prefixes]
        previous = span
    return tags


def detect_scheme(sequences: Iterable[Sequence[str]]) -> str:
    """Detect the scheme from the tags of a corpus.

    An M- makes it BMES; else an E- or S- makes it IOBES, an L- or U- BILOU. Without a
    span of three words the first two look alike, and decode alike. Else a B- that
    separates nothing, because the word before is O or of another type, makes it BIO:
    IOB1 never writes one. Else a span that begins with I- makes it IOB1. IOB1 and BIO
    decode alike too.

    Raises:
      ValueError: a tag has a prefix of no scheme.
    """
    prefixes: set[str] = set()
    begins_with_i = needless_b = False
    for tags in sequences:
        previous = ""  # the type of the word before
        for tag in tags:
            if tag == "O":
                previous = ""
                continue
            prefix, kind = parse(tag)
            prefixes.add(prefix)
            begins_with_i |= prefix == "I" and kind != previous
            needless_b |= prefix == "B" and kind != previous
            previous = kind
    if "M" in prefixes:
        return "BMES"
    if prefixes & {"E", "S"}:
        return "IOBES"
    if prefixes & {"L", "U"}:
        return "BILOU"
    return "IOB1" if begins_with_i and not needless_b else "BIO"


def label_set(scheme: str, types: Iterable[str]) -> list[str]:
    """Return every tag of the types, "O" first, then by type in the scheme's order.

    >>> label_set("BIO", ["PER", "LOC"])
    ['O', 'B-LOC', 'I-LOC', 'B-PER', 'I-PER']

    Raises:
      ValueError: the scheme is unknown or a type is empty.
    """
    _check_scheme(scheme)
    kinds = sorted(set(types))
    if "" in kinds:
        raise ValueError("a type is empty")
    return ["O"] + [f"{prefix}-{kind}" for kind in kinds for prefix in PREFIXES[scheme]]


@functools.lru_cache(maxsize=4096)  # a corpus has few tags, and each many times
def parse(tag: str, scheme: str | None = None) -> tuple[str, str]:
    """Split a tag, of any scheme if that is None, into prefix and type.

    >>> parse("B-work-of-art"), parse("O"), parse("B")
    (('B', 'work-of-art'), ('O', ''), ('B', ''))

    Raises:
      ValueError: the tag is not `O` and has no prefix of the scheme.
    """
    if tag == "O":
        return "O", ""
    prefix, _, kind = tag.partition("-")
    if prefix not in (_ALL_PREFIXES if scheme is None else PREFIXES[scheme]):
        belongs = "any scheme" if scheme is None else scheme
        raise ValueError(
            f"tag {quote(tag)} does not belong to {belongs} ({forms(scheme)})"
        )
    return prefix, kind


@functools.lru_cache(maxsize=4096)
def prefixed(tag: str) -> str:
    """Return a tag as schemes have it where the prefix is a suffix, or `_` follows it.

    Others come back as they are.

    >>> [prefixed(tag) for tag in ("B_PER", "PER-B", "PER_B", "B-PER", "O", "NNP")]
    ['B-PER', 'B-PER', 'B-PER', 'B-PER', 'O', 'NNP']
    """
    if tag.partition("-")[0] in ("O", *_ALL_PREFIXES):
        return tag
    if match := _UNDERSCORED.fullmatch(tag):
        return f"{match[1]}-{match[2]}"
    match = _SUFFIXED.fullmatch(tag)
    return f"{match[2]}-{match[1]}" if match else tag


class TagForm(NamedTuple):
    """How tags are written: the scheme, and where their prefix is.

    >>> TagForm.detect([["PER-B", "PER-I", "O"]]).style("B-LOC")
    'LOC-B'
    """

    scheme: str
    form: str = "{0}-{1}"

    @classmethod
    def detect(
        cls, sequences: Sequence[Sequence[str]], scheme: str | None = None
    ) -> TagForm:
        """Return how tags are written: the form of most, and the scheme or theirs.

        Raises:
          ValueError: a tag has a prefix of no scheme.
        """
        counts = Counter(
            form_of(tag) for some in sequences for tag in some if tag != "O"
        )
        plain = [[prefixed(tag) for tag in some] for some in sequences]
        form = max(counts, key=counts.__getitem__, default="{0}-{1}")
        return cls(scheme or detect_scheme(plain), form)

    def style(self, tag: str) -> str:
        """Return a tag of the scheme as tags are written."""
        prefix, dash, kind = tag.partition("-")
        return self.form.format(prefix, kind) if dash else tag

    def are_alike(self, gold: Sequence[str], tags: Sequence[str]) -> bool:
        """Return whether two sequences of tags have the same spans."""
        plain = [[prefixed(tag) for tag in some] for some in (gold, tags)]
        try:
            first, second = (spans(some, self.scheme) for some in plain)
        except ValueError:
            return False
        return first == second


def form_of(tag: str) -> str:
    """Return how a tag is written, of its prefix {0} and type {1}.

    >>> [form_of(tag) for tag in ("B-PER", "B_PER", "PER-B", "PER_B")]
    ['{0}-{1}', '{0}_{1}', '{1}-{0}', '{1}_{0}']
    """
    prefix, _, kind = prefixed(tag).partition("-")
    forms = ("{0}-{1}", "{0}_{1}", "{1}-{0}", "{1}_{0}")
    return next((form for form in forms if form.format(prefix, kind) == tag), forms[0])


def forms(scheme: str | None = None) -> str:
    """List the tags of a scheme, or of all, for messages."""
    prefixes = _ALL_PREFIXES if scheme is None else PREFIXES[scheme]
    return ", ".join(["O", *(f"{prefix}-TYPE" for prefix in prefixes)])


def _check_scheme(scheme: str) -> None:
    if scheme not in PREFIXES:
        raise ValueError(
            f"unknown scheme {quote(scheme)}; choose from {', '.join(PREFIXES)}"
        )
