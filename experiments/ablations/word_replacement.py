"""The data sets of the paper's imbalance ablation, made by replacing words.

Li et al. (ACL edition, section 5.1) train on question pairs, QQP, imbalanced to
different extents. With P positive and N negative examples in the original, P < N:

| variant               | examples | positive        | the paper's QQP          |
| --------------------- | -------- | --------------- | ------------------------ |
| original              | P + N    | P               | 363,871, 37% positive    |
| +positive             | 2 N      | N, half         | 458,477, 50%             |
| +negative             | 2 N      | P               | 458,477, 21% (see below) |
| -negative             | 2 P      | P, half         | 269,165, 50%             |
| +positive & +negative | 2 N      | P / (P + N)     | 458,477, 50% (see below) |

Two rows of the paper contradict themselves. With only negatives added, 458,477 are 29%
positive; `positive_share=0.21` gives 21%, with 641,000 examples. And 458,477 examples,
half positive, hold no added negative: here "the data distribution staying the same" is
followed; with `positive_share=0.5` set a `size` above 2 N.

The paper replaces names by others that DBpedia links to; here synonyms replace words.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from dicejax.data.augmentation import Augmentation
from dicejax.data.examples import LabelledText
from dicejax.errors import InputError, quote
from dicejax.io.files import lines

Lookup = Callable[[str], tuple[str, ...]]
"""Returns the synonyms of a word in lower case, in a fixed order; maybe none."""

# Letters and digits, joined by apostrophes and hyphens; an accent that is a character
# of its own belongs to its letter. No part of an address, a path, a tag or a formula.
_LETTERS = r"(?:[^\W_][\u0300-\u036f]*+)++"
_WORD = re.compile(
    r"(?<![\w\u0300-\u036f@#/\\$%&=+])(?<!\w[.’'-])"
    rf"{_LETTERS}(?:['’-]{_LETTERS})*+"
    r"(?![\w@/\\=&+]|[.’'-]\w)"
)
# Words that carry grammar, for which WordNet has other senses: "in" is an inch there.
_GRAMMAR = """
a about above across after again all am an and any are as at be because been
before being below between both but by can could did do does doing down each either
every few for from had has have having he her here hers him his how i if in into is
it its just least less many may me might mine more most much must my near neither
no nor not of off on one or other our out over own same shall she should so some
such than that the their them then there these they this those through to too under
until up us very was we were what when where which while who whom why will with
would you your two three four five six seven eight nine ten
"""
_STOP_WORDS = frozenset(_GRAMMAR.split())


@dataclasses.dataclass(frozen=True, kw_only=True)
class WordNet:
    """Princeton's WordNet or its successors, read by the package `wn`.

    An inflected form has no synonyms, and neither have words such as "in" and "two".

    Args:
      senses: number of senses of a word to use, the commonest first.
      lexicon: lexicon of wn, such as "oewn:2024"; None takes all English ones.
    """

    senses: int = 1
    lexicon: str | None = None

    def __post_init__(self):
        if self.senses < 1:
            raise ValueError(f"senses is {self.senses}; want at least 1")

    def load(self) -> Lookup:
        """Open the lexicon.

        Raises:
          InputError: the package or its data is missing.
        """
        try:
            import wn

            words = wn.Wordnet(self.lexicon, lang=None if self.lexicon else "en")
        except ImportError:
            reason = "the package wn is not installed"
        except wn.Error as error:
            reason = f"no data: {error}"
        else:
            return functools.cache(functools.partial(self._look_up, words))
        raise InputError(
            f"WordNet cannot be used ({reason}); pip install wn and "
            "python -m wn download oewn:2024, or give a file of pairs: "
            "augmentation.synonyms=SynonymPairs(path=...)"
        )

    def _look_up(self, words, word: str) -> tuple[str, ...]:
        if word in _STOP_WORDS:
            return ()
        # wn finds the base form of an inflected word too: such senses lack the word.
        senses = (synset.lemmas() for synset in words.synsets(word))
        senses_of_word = [lemmas for lemmas in senses if word in lemmas][: self.senses]
        lemmas = dict.fromkeys(lemma for sense in senses_of_word for lemma in sense)
        return tuple(lemma for lemma in lemmas if lemma != word and _is_plain(lemma))


@dataclasses.dataclass(frozen=True, kw_only=True)
class SynonymPairs:
    r"""A text file with a pair of synonyms per line, separated by a tab.

    Pairs are symmetric; a word may occur in several. Case is ignored.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "pairs.tsv"
    >>> _ = path.write_text("quick\tfast\nfast\trapid\n")
    >>> SynonymPairs(path=str(path)).load()("fast")
    ('quick', 'rapid')

    Args:
      path: file; local, or anything etils.epath opens.
    """

    path: str

    def load(self) -> Lookup:
        """Read the file.

        Raises:
          InputError: it is missing, empty or not text, or a line is not a pair.
        """
        synonyms: dict[str, dict[str, None]] = {}
        for number, line in lines(self.path):
            if not line.strip():
                continue
            pair = [" ".join(word.split()) for word in line.split("\t")]
            if len(pair) != 2 or "" in pair or _key(pair[0]) == _key(pair[1]):
                do = "write two words with a tab between them"
                raise InputError.at(self.path, number, "is not a pair of synonyms", do)
            for word, other in (pair, pair[::-1]):
                synonyms.setdefault(_key(word), {})[other] = None
        return lambda word: tuple(synonyms.get(word, ()))


Synonyms = WordNet | SynonymPairs


class _Slot(NamedTuple):
    """A word that can be replaced."""

    text: int
    start: int
    end: int
    synonyms: list[str]  # in the word's case


class Replacer:
    """Replacement of words by synonyms in the same letter case.

    Spaces, punctuation and words in mixed case (iPhone) are kept.

    >>> replacer = Replacer({"easy": ("simple",)}.get, share=1.0)
    >>> replacer(("Is it EASY?", "Easy!"), np.random.default_rng(0))
    ('Is it SIMPLE?', 'Simple!')

    Args:
      lookup: returns a word's synonyms.
      share: share of an example's words to replace, rounded, but at least one word and
        at most those that have synonyms.
    """

    def __init__(self, lookup: Lookup, share: float):
        self._lookup = lookup
        self._share = share

    def __call__(
        self, texts: tuple[str, ...], random: np.random.Generator
    ) -> tuple[str, ...] | None:
        """Replace words drawn from all texts of an example; None if none can be."""
        slots, words = self._slots(texts)
        if not slots:
            return None
        count = min(len(slots), max(1, round(self._share * words)))
        written = list(texts)
        # From the end, so that no replacement moves another word.
        for choice in sorted(random.permutation(len(slots))[:count], reverse=True):
            slot = slots[choice]
            synonym = slot.synonyms[random.integers(len(slot.synonyms))]
            text = written[slot.text]
            written[slot.text] = text[: slot.start] + synonym + text[slot.end :]
        return tuple(written)

    def finds(self, texts: tuple[str, ...]) -> bool:
        """Return whether any word can be replaced."""
        return bool(self._slots(texts)[0])

    def _slots(self, texts: tuple[str, ...]) -> tuple[list[_Slot], int]:
        """Find the words that can be replaced, and count all."""
        slots, words = [], 0
        for number, text in enumerate(texts):
            for match in _WORD.finditer(text):
                words += 1
                synonyms_of_word = self._lookup(_key(match[0])) or ()
                cased = (_in_case_of(match[0], synonym) for synonym in synonyms_of_word)
                synonyms = [
                    synonym for synonym in cased if synonym and synonym != match[0]
                ]
                if synonyms:
                    slots.append(_Slot(number, *match.span(), synonyms))
        return slots, words


def _key(word: str) -> str:
    return word.lower().replace("’", "'")


def _is_plain(lemma: str) -> bool:
    letters = lemma.replace(" ", "").replace("-", "")
    return letters.isalpha() and lemma == lemma.lower() and lemma not in _STOP_WORDS


def _in_case_of(word: str, synonym: str) -> str | None:
    """Write the synonym in the word's letter case; None where that is mixed."""
    if word == word.lower():
        return synonym
    if word[1:] == word[1:].lower():
        return synonym[0].upper() + synonym[1:]
    return synonym.upper() if word == word.upper() else None


Variant = Literal[
    "original", "+positive", "+negative", "-negative", "+positive & +negative"
]

# After so many draws in a row without anything new, a template is given up.
_DRAWS = 10


@dataclasses.dataclass(frozen=True)
class Added:
    """The examples added to a class.

    Attributes:
      requested: number of examples to add.
      made: number of examples added.
      unreplaceable: number of the class's examples in which nothing can be replaced.
      exhausted: number of its others that gave nothing new any more.
    """

    requested: int = 0
    made: int = 0
    unreplaceable: int = 0
    exhausted: int = 0

    def __str__(self) -> str:
        """Format as one line."""
        short = f" of {self.requested} wanted" if self.made < self.requested else ""
        return (
            f"{self.made} added{short}; nothing to replace in {self.unreplaceable}, "
            f"nothing new left in {self.exhausted}"
        )


@dataclasses.dataclass(frozen=True)
class Augmented:
    """A data set of the ablation.

    Attributes:
      examples: kept examples in their order, then added ones.
      positives: number of positive examples.
      removed: number of negative examples left out.
      positive: additions to the positive class.
      negative: additions to the negative class.
    """

    examples: tuple[LabelledText, ...]
    positives: int
    removed: int
    positive: Added
    negative: Added

    def __str__(self) -> str:
        """Format as one line for the whole and one per change."""
        share = self.positives / len(self.examples)
        lines = [f"{len(self.examples)} examples, {share:.1%} positive"]
        if self.removed:
            lines.append(f"  negative: {self.removed} left out")
        for name, added in (("positive", self.positive), ("negative", self.negative)):
            if added.requested:
                lines.append(f"  {name}: {added}")
        return "\n".join(lines)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImbalanceAblation(Augmentation):
    """Builder of one of the five data sets; deterministic in its fields.

    A class grows by variants of its own examples, each of which serves once before any
    serves twice. A variant has texts that no other example has, label and line of its
    example, and that one's id with a number. With the same seed, a set that adds more
    positive examples adds those of a smaller set first.

    >>> from dicejax.data.examples import LabelledText
    >>> data = [LabelledText(f"{i}?", None, l, str(i), i) for i, l in enumerate("100")]
    >>> print(ImbalanceAblation(variant="-negative").make(data))
    2 examples, 50.0% positive
      negative: 1 left out

    Args:
      variant: data set to build.
      positive: label of the positive class; all others are negative.
      size: number of examples; None takes that of the table above.
      positive_share: share of positive examples. Only for `+positive & +negative` are
        both free; for the others give one or none.
      synonyms: source of the synonyms.
      replaced_share: share of words that a variant replaces, at least one.
      seed: random seed.
    """

    variant: Variant
    positive: str = "1"
    size: int | None = None
    positive_share: float | None = None
    synonyms: Synonyms = WordNet()
    replaced_share: float = 0.1
    seed: int = 0

    def __post_init__(self):
        if self.variant not in get_args(Variant):
            variants = ", ".join(map(repr, get_args(Variant)))
            raise ValueError(
                f"variant is {quote(self.variant)}; want one of {variants}"
            )
        free = {"original": 0, "+positive & +negative": 2}.get(self.variant, 1)
        if (self.size is not None) + (self.positive_share is not None) > free:
            takes = "one of size and positive_share" if free else "neither"
            raise ValueError(
                f"{self.variant} takes {takes}, not size {self.size} and "
                f"positive_share {self.positive_share}"
            )
        if self.size is not None and self.size < 1:
            raise ValueError(f"size is {self.size}; want at least 1")
        if self.positive_share is not None and not 0 < self.positive_share < 1:
            raise ValueError(
                f"positive_share is {self.positive_share}; want between 0 and 1"
            )
        if not 0 < self.replaced_share <= 1:
            raise ValueError(
                f"replaced_share is {self.replaced_share}; want above 0, up to 1"
            )

    def targets(self, positives: int, negatives: int) -> tuple[int, int]:
        """Return how many positive and negative examples the data set has.

        >>> ImbalanceAblation(variant="+negative").targets(134_632, 229_239)
        (134632, 323846)

        Args:
          positives: number in the original.
          negatives: number in the original.

        Raises:
          InputError: a class that shall grow would shrink, or the other way round.
        """
        share = self.positive_share
        total = self.size or 2 * (
            positives if self.variant == "-negative" else negatives
        )
        if self.variant == "original":
            targets = positives, negatives
        elif self.variant == "+positive & +negative":
            part = round(total * (share or positives / (positives + negatives)))
            targets = part, total - part
        elif self.variant == "+positive":
            total = round(negatives / (1 - share)) if share else total
            targets = total - negatives, negatives
        else:
            total = round(positives / share) if share else total
            targets = positives, total - positives
        self._check(targets, (positives, negatives))
        return targets

    def augment(self, examples: Sequence[Any]) -> tuple[tuple[Any, ...], str]:
        """Return the data set and its counts, see `make`."""
        made = self.make(examples)
        return made.examples, str(made)

    def make(self, examples: Sequence[LabelledText]) -> Augmented:
        """Build the data set.

        A class with too few variants stays short of its target; the result says so.

        Args:
          examples: original training set.

        Raises:
          InputError: an example has no label or is no text with one class, a class has
            no example, the original does not fit the variant (see `targets`), or the
            synonyms are unavailable.
        """
        classes = self._classes(examples)
        present = len(classes[0]), len(classes[1])
        targets = self.targets(*present)
        order = np.random.default_rng((self.seed, 3)).permutation(present[1])
        out = {classes[1][place] for place in order[targets[1] :]}
        remaining = [example for i, example in enumerate(examples) if i not in out]
        added, reports = [], [Added(), Added()]
        if targets[0] > present[0] or targets[1] > present[1]:
            replacer = Replacer(self.synonyms.load(), self.replaced_share)
            growth = _Growth(remaining, replacer)
            for place, members in enumerate(classes):
                reports[place] = growth.add(
                    [examples[member] for member in members],
                    max(0, targets[place] - present[place]),
                    np.random.default_rng((self.seed, place + 1)),
                )
            added = growth.made
        positives = present[0] + reports[0].made
        return Augmented((*remaining, *added), positives, len(out), *reports)

    def _classes(self, examples: Sequence[LabelledText]) -> tuple[list[int], list[int]]:
        """Return the indices of positive and of negative examples."""
        classes: tuple[list[int], list[int]] = ([], [])
        for place, example in enumerate(examples):
            if not isinstance(example, LabelledText):
                raise InputError(
                    "augmentation is for texts with one class, but the data holds "
                    f"{type(example).__name__}; leave it out"
                )
            if example.label is None:
                raise InputError(
                    f"example {example.id} has no label; take a training set"
                )
            classes[example.label != self.positive].append(place)
        if not all(classes):
            labels = sorted({example.label for example in examples})
            raise InputError(
                f"positive is label {quote(self.positive)}, but the examples have "
                f"{', '.join(map(quote, labels)) or 'none'}; want it and another"
            )
        return classes

    def _check(self, targets: tuple[int, int], present: tuple[int, int]) -> None:
        if self.variant == "-negative":
            fits = 0 < targets[1] <= present[1]
        else:
            fits = targets[0] >= present[0] and targets[1] >= present[1]
        if not fits:
            raise InputError(
                f"{self.variant}: {present[0]} positive and {present[1]} negative "
                f"examples cannot become {targets[0]} and {targets[1]}; name the rarer "
                "label as positive, or set another size or positive_share"
            )


class _Growth:
    """Builder of variants, unlike each other and all existing examples."""

    def __init__(self, examples: Sequence[LabelledText], replacer: Replacer):
        self.made: list[LabelledText] = []
        self._seen = {_texts(example) for example in examples}
        self._ids = {example.id for example in examples}
        self._replacer = replacer

    def add(
        self, templates: list[LabelledText], requested: int, random: np.random.Generator
    ) -> Added:
        """Add as many as requested, or as there are."""
        if requested == 0:
            return Added()
        useful = [t for t in templates if self._replacer.finds(_texts(t))]
        unreplaceable = len(templates) - len(useful)
        exhausted, before = 0, len(self.made)
        while useful and len(self.made) - before < requested:
            again = []
            for place in random.permutation(len(useful)):
                if len(self.made) - before == requested:
                    break
                if self._add_one(useful[place], random):
                    again.append(useful[place])
                else:
                    exhausted += 1
            useful = again
        return Added(requested, len(self.made) - before, unreplaceable, exhausted)

    def _add_one(self, template: LabelledText, random: np.random.Generator) -> bool:
        for _ in range(_DRAWS):
            texts = self._replacer(_texts(template), random)
            if texts not in self._seen:
                self._seen.add(texts)
                first, second = (*texts, None)[:2]
                self.made.append(
                    dataclasses.replace(
                        template, first=first, second=second, id=self._id(template.id)
                    )
                )
                return True
        return False

    def _id(self, template: str) -> str:
        number = 1
        while f"{template}~{number}" in self._ids:
            number += 1
        self._ids.add(f"{template}~{number}")
        return f"{template}~{number}"


def _texts(example: LabelledText) -> tuple[str, ...]:
    if example.second is None:
        return (example.first,)
    return (example.first, example.second)
