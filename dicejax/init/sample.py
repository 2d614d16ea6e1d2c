"""A sample to begin with: made-up sentences with entities, in a file of columns."""

from __future__ import annotations

from pathlib import Path

from etils import epath

from dicejax.data import tags
from dicejax.data.sources import SyntheticNER
from dicejax.io import files

FILE = "sample.conll"
SENTENCES = 4000
O_PER_ENTITY = 8.0


def write(folder: Path) -> Path:
    """Write `sample.conll`: 4,000 sentences, a word and its tag on each line.

    The word or two before a word decide whether it is a name, and its type, so a tagger
    has to read the sentence.

    Args:
      folder: where to write it; created if missing.

    Raises:
      InputError: it cannot be written.
    """
    corpus = SyntheticNER(
        train=SENTENCES, dev=1, test=1, o_per_entity=O_PER_ENTITY
    ).load()
    lines = []
    for sentence in corpus.train:
        labels = tags.encode(sentence.spans, len(sentence.words), "BIO")
        lines += [f"{w} {t}" for w, t in zip(sentence.words, labels, strict=True)] + [
            ""
        ]
    files.write_whole(epath.Path(folder), FILE, "\n".join(lines) + "\n")
    return folder / FILE
