"""Where examples come from: one dataclass per kind of data set, each with `load()`."""

from __future__ import annotations

import dataclasses
from typing import Literal

from etils import epath

from dicejax.data.readers import conll
from dicejax.data.synthetic import Corpus
from dicejax.errors import InputError

Scheme = Literal["IOB1", "BIO", "IOBES", "BMES"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConllFiles:
    """Three CoNLL column files in one folder.

    Args:
      dir: the folder; local, or anything etils.epath opens (gs://, s3://).
      train: file name of the training split.
      dev: file name of the split that selects the best checkpoint.
      test: file name of the split that is reported.
      word_column: column that holds the word; negative counts from the end.
      tag_column: column that holds the tag; negative counts from the end.
      separator: what stands between columns; None is any run of spaces and tabs.
      scheme: how the tags are written; None detects it from each file.
    """

    dir: str
    train: str = "train.txt"
    dev: str = "dev.txt"
    test: str = "test.txt"
    word_column: int = 0
    tag_column: int = -1
    separator: str | None = None
    scheme: Scheme | None = None

    def load(self) -> Corpus:
        """Read the three files.

        Raises:
          InputError: a file is missing or malformed; the message names file and line.
        """
        folder = epath.Path(self.dir)
        if not folder.is_dir():
            raise InputError(
                f"{self.dir}: no such folder; name the one that holds {self.train}, "
                f"{self.dev} and {self.test} (train: --data.dir, evaluate: --data)"
            )
        return Corpus(
            *(
                tuple(
                    conll.read(
                        folder / name,
                        word_column=self.word_column,
                        tag_column=self.tag_column,
                        separator=self.separator,
                        scheme=self.scheme,
                    )
                )
                for name in (self.train, self.dev, self.test)
            )
        )
