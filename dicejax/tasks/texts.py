"""Base class of tasks that label whole texts or pairs of texts."""

from __future__ import annotations

import abc
import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from tokenizers import Tokenizer

from dicejax.data import tokenize
from dicejax.data.pack import BatchLayout
from dicejax.errors import Cut, InputError, quote
from dicejax.tasks import windows
from dicejax.tasks.task import IGNORED, Examples, Item, Items, Labels, Outputs

HEAD = "label"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextTask(windows.WindowTask):
    """Base class of tasks with one output per text.

    Examples have a `first` text and a `second` one or None; a subclass says what of
    them is gold. A text longer than `max_length` is cut into windows that overlap: each
    is trained with the text's gold, and the mean of their probabilities decides. Of a
    pair the longer text is truncated.

    Args:
      stride: overlap of neighbouring windows in pieces, at most half of a window.
    """

    reads_words: ClassVar[bool] = False
    default_threshold: ClassVar[float | None] = 0.5
    told: ClassVar[str] = "label"  # in warnings

    @abc.abstractmethod
    def gold(self, example: Any) -> Sequence[str] | None:
        """Return the gold labels of an example; None if they are unknown."""

    @abc.abstractmethod
    def encode_target(
        self, gold: Sequence[str] | None, index: Mapping[str, int]
    ) -> int | np.ndarray:
        """Return the target of an example, given the number of each known label."""

    def texts(self, examples: Examples) -> Iterable[str]:
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
        self, examples: Examples, tokenizer: Tokenizer, labels: Labels, max_length: int
    ) -> list[Item]:
        """Encode texts, in windows, and pairs; the detail: whether a pair was cut.

        Unknown labels are left out of the loss.
        """
        index = {label: number for number, label in enumerate(labels)}
        items = []
        for number, (example, whole) in enumerate(
            zip(examples, _pieces(examples, tokenizer), strict=True)
        ):
            target = self.encode_target(self.gold(example), index)
            for pieces in _fitted(example, whole, max_length, self.stride):
                arrays = {
                    "input_ids": pieces.ids,
                    "token_type_ids": pieces.token_types,
                    HEAD: target,
                    "summary_positions": pieces.summary,
                }
                cut = example.second is not None and len(pieces) < len(whole)
                items.append(Item(arrays, number, cut))
        return items

    def decode(
        self, example: Any, items: Items, outputs: Sequence[Outputs], labels: Labels
    ) -> dict[str, float]:
        """Return the probability of each label, the mean over the windows."""
        mean = np.mean([output[HEAD] for output in outputs], axis=0)
        return dict(zip(labels, mean.tolist(), strict=True))

    def cut_inputs(self, split: str, items: Items) -> list[str]:
        """Warn of pairs that are cut off."""
        cut = sum(item.detail for item in items)
        if not cut:
            return []
        text = (
            f"{cut} of {len(items)} {split} pairs ({cut / len(items):.0%}) are cut "
            f"off at {max(map(len, items))} tokens; raise --training.max_length"
        )
        return [Cut(text)]

    def warnings(
        self, split: str, examples: Examples, items: Items, labels: Labels
    ) -> list[str]:
        """Warn of labels that train lacks, and of long texts.

        Raises:
          InputError: an example has no label.
        """
        self.require_gold(split, examples)
        counts = Counter(one for e in examples for one in self.gold(e) or ())
        said = [
            f"{split} has {count} example{'s' if count > 1 else ''} of {self.told} "
            f"{quote(label)}, which train lacks: counted as wrong"
            for label, count in sorted(counts.items())
            if label not in labels
        ]
        said += self.cut_inputs(split, items)
        return [*said, *windows.remark(split, examples, items)]

    def require_gold(self, split: str, examples: Examples) -> None:
        """Check that all gold labels are known.

        Raises:
          InputError: those of an example are not.
        """
        without = [one.id for one in examples if self.gold(one) is None]
        if without:
            raise InputError(
                f"{len(without)} of {len(examples)} examples of {split} have no label, "
                f"{quote(without[0])} among them: there is nothing to compare with; "
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


def _fitted(
    example: Any, whole: tokenize.EncodedText, max_length: int, stride: int
) -> Iterator[tokenize.EncodedText]:
    """Yield the windows of a text, or a pair, its longer text truncated."""
    if example.second is None:
        for part in windows.of_text(whole, max_length, stride):
            yield part.encoded
        return
    try:
        yield whole.truncate(max_length, longer_first=True)
    except ValueError as error:
        raise InputError(f"max_length: {error}; make it larger") from error


def _pieces(examples: Examples, tokenizer: Tokenizer) -> list[tokenize.EncodedText]:
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
