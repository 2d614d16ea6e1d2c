"""Base class of tasks that label whole texts or pairs of texts."""

from __future__ import annotations

import abc
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from tokenizers import Tokenizer

from dicejax.data import tokenize
from dicejax.data.pack import BatchLayout
from dicejax.errors import InputError, shown
from dicejax.tasks.task import IGNORED, Item, Outputs, Task

HEAD = "label"


class TextTask(Task):
    """Base class of tasks with one item per text, and one output.

    Examples have a `first` text and a `second` one or None; a subclass says what of
    them is gold.
    """

    reads_words: ClassVar[bool] = False
    default_threshold: ClassVar[float | None] = 0.5
    told: ClassVar[str] = "label"  # in warnings

    @abc.abstractmethod
    def gold(self, example: Any) -> Sequence[str] | None:
        """Return the gold labels of an example; None if they are unknown."""

    @abc.abstractmethod
    def encoded(
        self, gold: Sequence[str] | None, index: Mapping[str, int]
    ) -> int | np.ndarray:
        """Return the target of an example, given the number of each known label."""

    def texts(self, examples: Sequence[Any]) -> Iterable[str]:
        """Yield the words of all texts."""
        for example in examples:
            yield from example.first.split()
            yield from (example.second or "").split()

    def layout(self, tokenizer: Tokenizer) -> BatchLayout:
        """Return the layout of an item's arrays."""
        return BatchLayout(
            tokens={"input_ids": tokenize.pad_id(tokenizer), "token_type_ids": 0},
            sequences={HEAD: IGNORED},
            places={"summary_positions": -1},
        )

    def encode(
        self,
        examples: Sequence[Any],
        tokenizer: Tokenizer,
        labels: Sequence[str],
        max_length: int,
    ) -> list[Item]:
        """Encode each text or pair as one item; its detail: whether it was cut.

        The longer text is truncated; unknown labels are left out of the loss.
        """
        index = {label: number for number, label in enumerate(labels)}
        items = []
        for number, (example, whole) in enumerate(
            zip(examples, _pieces(examples, tokenizer), strict=True)
        ):
            try:
                pieces = whole.shortened(max_length, longer_first=True)
            except ValueError as error:
                raise InputError(f"max_length: {error}; make it larger") from error
            arrays = {
                "input_ids": pieces.ids,
                "token_type_ids": pieces.token_types,
                HEAD: self.encoded(self.gold(example), index),
                "summary_positions": pieces.summary,
            }
            items.append(Item(arrays, number, len(pieces) < len(whole)))
        return items

    def decode(
        self,
        example: Any,
        items: Sequence[Item],
        outputs: Sequence[Outputs],
        labels: Sequence[str],
    ) -> dict[str, float]:
        """Return the probability of each label."""
        del example, items
        (output,) = outputs
        return dict(zip(labels, output[HEAD].tolist(), strict=True))

    def warnings(
        self,
        split: str,
        examples: Sequence[Any],
        items: Sequence[Item],
        labels: Sequence[str],
    ) -> list[str]:
        """Warn of labels that train lacks, and of truncated texts.

        Raises:
          InputError: an example has no label.
        """
        self.require_gold(split, examples)
        counts = Counter(one for e in examples for one in self.gold(e) or ())
        said = [
            f"{split} has {count} example{'s' if count > 1 else ''} of {self.told} "
            f"{shown(label)}, which train lacks: counted as wrong"
            for label, count in sorted(counts.items())
            if label not in labels
        ]
        cut = sum(item.detail for item in items)
        if cut:
            said.append(
                f"{cut} of {len(items)} {split} texts ({cut / len(items):.0%}) are cut "
                f"off at {max(map(len, items))} tokens; raise --training.max_length"
            )
        return said

    def require_gold(self, split: str, examples: Sequence[Any]) -> None:
        """Check that all gold labels are known.

        Raises:
          InputError: those of an example are not.
        """
        without = [one.id for one in examples if self.gold(one) is None]
        if without:
            raise InputError(
                f"{len(without)} of {len(examples)} examples of {split} have no label, "
                f"{shown(without[0])} among them: there is nothing to compare with; "
                f"name a labelled one (--data.{split})"
            )

    def parse(self, line: str, number: int) -> Any:
        """Take a text, or two with a tab between them."""
        first, *rest = line.split("\t")
        if len(rest) > 1:
            raise InputError(f"text {number} has {len(rest)} tabs; want one at most")
        second = rest[0] if rest else None
        (kind,) = self.takes
        return kind(first.strip(), second, None, str(number - 1), number)


def shown_texts(example: Any) -> list[str]:
    """Return the text or the pair of an example."""
    return [example.first] + ([] if example.second is None else [example.second])


def _pieces(
    examples: Sequence[Any], tokenizer: Tokenizer
) -> list[tokenize.EncodedText]:
    firsts = [example.first for example in examples]
    pairs = [example.second for example in examples]
    if all(pair is None for pair in pairs):
        return tokenize.encode_texts(tokenizer, firsts)
    if any(pair is None for pair in pairs):
        place = next(n for n, pair in enumerate(pairs) if pair is None)
        raise InputError(
            f"example {examples[place].id} is one text, others are pairs; give all "
            "texts a second, or none"
        )
    return tokenize.encode_texts(tokenizer, firsts, pairs)
