"""The data sets of the paper's imbalance ablation.

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
from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np

from dicejax.data.examples import LabelledText
from dicejax.data.synonyms import Replacer, Synonyms, WordNet
from dicejax.errors import InputError, shown

__all__ = ["Added", "Augmented", "ImbalanceAblation", "Variant"]

Variant = Literal[
    "original", "+positive", "+negative", "-negative", "+positive & +negative"
]

# After so many draws in a row without anything new, a template is given up.
_DRAWS = 10


@dataclasses.dataclass(frozen=True)
class Added:
    """The examples added to a class.

    Attributes:
      wanted: number of examples to add.
      made: number of examples added.
      unreplaceable: number of the class's examples in which nothing can be replaced.
      exhausted: number of its others that gave nothing new any more.
    """

    wanted: int = 0
    made: int = 0
    unreplaceable: int = 0
    exhausted: int = 0

    def __str__(self) -> str:
        """Format as one line."""
        short = f" of {self.wanted} wanted" if self.made < self.wanted else ""
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
            if added.wanted:
                lines.append(f"  {name}: {added}")
        return "\n".join(lines)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImbalanceAblation:
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
            known = ", ".join(map(repr, get_args(Variant)))
            raise ValueError(f"variant is {shown(self.variant)}; want one of {known}")
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
            wanted = positives, negatives
        elif self.variant == "+positive & +negative":
            part = round(total * (share or positives / (positives + negatives)))
            wanted = part, total - part
        elif self.variant == "+positive":
            total = round(negatives / (1 - share)) if share else total
            wanted = total - negatives, negatives
        else:
            total = round(positives / share) if share else total
            wanted = positives, total - positives
        self._check(wanted, (positives, negatives))
        return wanted

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
        wanted = self.targets(*present)
        order = np.random.default_rng((self.seed, 3)).permutation(present[1])
        out = {classes[1][place] for place in order[wanted[1] :]}
        kept = [example for i, example in enumerate(examples) if i not in out]
        added, reports = [], [Added(), Added()]
        if wanted[0] > present[0] or wanted[1] > present[1]:
            replacer = Replacer(self.synonyms.load(), self.replaced_share)
            growth = _Growth(kept, replacer)
            for place, members in enumerate(classes):
                reports[place] = growth.add(
                    [examples[member] for member in members],
                    max(0, wanted[place] - present[place]),
                    np.random.default_rng((self.seed, place + 1)),
                )
            added = growth.made
        positives = present[0] + reports[0].made
        return Augmented((*kept, *added), positives, len(out), *reports)

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
            known = sorted({example.label for example in examples})
            raise InputError(
                f"positive is label {shown(self.positive)}, but the examples have "
                f"{', '.join(map(shown, known)) or 'none'}; want it and another"
            )
        return classes

    def _check(self, wanted: tuple[int, int], present: tuple[int, int]) -> None:
        if self.variant == "-negative":
            fits = 0 < wanted[1] <= present[1]
        else:
            fits = wanted[0] >= present[0] and wanted[1] >= present[1]
        if not fits:
            raise InputError(
                f"{self.variant}: {present[0]} positive and {present[1]} negative "
                f"examples cannot become {wanted[0]} and {wanted[1]}; name the rarer "
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
        self, templates: list[LabelledText], wanted: int, random: np.random.Generator
    ) -> Added:
        """Add as many as wanted, or as there are."""
        if wanted == 0:
            return Added()
        useful = [t for t in templates if self._replacer.finds(_texts(t))]
        unreplaceable = len(templates) - len(useful)
        exhausted, before = 0, len(self.made)
        while useful and len(self.made) - before < wanted:
            again = []
            for place in random.permutation(len(useful)):
                if len(self.made) - before == wanted:
                    break
                if self._add_one(useful[place], random):
                    again.append(useful[place])
                else:
                    exhausted += 1
            useful = again
        return Added(wanted, len(self.made) - before, unreplaceable, exhausted)

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
