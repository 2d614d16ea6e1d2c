"""A source of prepared sets of tensorflow-datasets."""

from __future__ import annotations

import dataclasses
from typing import Literal

from dicejax.data.examples import TaggedWords, by_character
from dicejax.data.readers import tfds
from dicejax.data.readers.skipping import Skipped
from dicejax.data.sources.source import Corpus, Source


@dataclasses.dataclass(frozen=True, kw_only=True)
class TensorflowDataset(Source):
    """A data set by its name in tensorflow-datasets; its features tell its kind.

    Splits take tensorflow-datasets' own language: "train[:90%]".

    Args:
      name: such as "squad", "glue/mrpc" or "conll2003".
      train: the split to learn from.
      dev: the split that selects the best checkpoint.
      test: the split that is reported.
      dir: where it is prepared; None takes tensorflow-datasets' own folder.
      download: fetch and prepare it where it is missing.
      label: which feature is the label, where there are several.
      characters: write words with labels as characters with spans.
      on_error: "stop" at the first malformed example, or "skip" them.
    """

    name: str
    train: str = "train"
    dev: str = "validation"
    test: str = "test"
    dir: str | None = None
    download: bool = False
    label: str | None = None
    characters: bool = False
    on_error: Literal["stop", "skip"] = "stop"

    def load(self) -> Corpus:
        """Read the three splits."""
        notes: list[str] = []
        names = (self.train, self.dev, self.test)
        splits = [self._read(split, notes) for split in names]
        return Corpus(*splits, tuple(notes))

    def _read(self, split: str, notes: list[str]) -> tuple:
        skipped = Skipped() if self.on_error == "skip" else None
        examples = tfds.read(
            self.name,
            split,
            data_dir=self.dir,
            download=self.download,
            label=self.label,
            on_error=skipped,
        )
        if skipped is not None and skipped.count:
            notes.append(f"{self.name}, {split}: {skipped}")
        if self.characters:
            examples = [
                by_character(one) if isinstance(one, TaggedWords) else one
                for one in examples
            ]
        return tuple(examples)
