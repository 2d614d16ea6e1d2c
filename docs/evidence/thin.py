"""Thin the positives of SST-2 to a share.

For part S of the first protocol and set 2 of the third:

    python docs/evidence/thin.py PHRASES SENTENCES OUT 50 25 10 5 2

reads train.tsv of the folder PHRASES (GLUE's SST-2), dev.txt and test.txt of the folder
SENTENCES (a label and a sentence on each line), and writes OUT/50 and so on: train.txt,
dev.txt and test.txt in which so many of 100 texts are positive. All negatives stay; of
the positives those in front in one shuffled order, so that a smaller share is a part of
a larger one. Phrases that are sentences of dev or test are left out.

    python docs/evidence/thin.py PHRASES SENTENCES OUT 5 --held_out 1000 3000

adds 1,000 sentences of SENTENCES/train.txt to dev and 3,000 to test, and leaves out all
phrases that are a part of a text of dev or test.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dicejax.data.examples import LabelledText
from dicejax.formats import TextFiles

SEED = 0
Labelled = tuple[str, str]  # a label, "0" or "1", and a text


def main(argv: Sequence[str]) -> None:
    """Write the folder of each share."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs=3, type=Path)
    parser.add_argument("shares", nargs="+", type=int)
    parser.add_argument("--held_out", nargs=2, type=int, default=(0, 0))
    given = parser.parse_args(argv)
    phrases, sentences, out = given.folders
    read = functools.partial(TextFiles.read_file, layout="label-first")
    splits = {name: [*read(sentences / f"{name}.txt")] for name in ("dev", "test")}
    train = TextFiles.read_file(
        phrases / "train.tsv", first="sentence", separator="\t", quoted=False
    )
    if any(given.held_out):
        more = read(sentences / "train.txt")
        order = np.random.default_rng(SEED).permutation(len(more)).tolist()
        first, last = given.held_out[0], sum(given.held_out)
        splits["dev"] += [more[n] for n in sorted(order[:first])]
        splits["test"] += [more[n] for n in sorted(order[first:last])]
    elsewhere = [example.first for examples in splits.values() for example in examples]
    splits["train"] = without(train, elsewhere, parts=any(given.held_out))
    for share in given.shares:
        for name, rows in splits.items():
            examples = [(example.label, example.first) for example in rows]
            remaining = thinned(examples, share / 100)
            file = out / str(share) / f"{name}.txt"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("".join(f"{label} {text}\n" for label, text in remaining))
            positives = sum(label == "1" for label, _ in remaining)
            print(f"{file}: {len(remaining):,} texts, {positives:,} positive")


def without(
    examples: Sequence[LabelledText], elsewhere: Sequence[str], *, parts: bool
) -> list[LabelledText]:
    """Return the examples that are no text elsewhere, and perhaps no part of one."""
    texts = {*elsewhere}
    if parts:
        texts = {
            " ".join(words[start:end])
            for words in (text.split() for text in elsewhere)
            for start in range(len(words))
            for end in range(start + 1, len(words) + 1)
        }
    return [each for each in examples if " ".join(each.first.split()) not in texts]


def thinned(examples: Sequence[Labelled], share: float) -> list[Labelled]:
    """Return all negatives, and positives until they are a share, in their order.

    >>> kept = thinned([("1", "a"), ("0", "b"), ("1", "c"), ("0", "d")], 1 / 3)
    >>> [label for label, _ in kept].count("1"), len(kept)
    (1, 3)
    """
    positives = [n for n, (label, _) in enumerate(examples) if label == "1"]
    negatives = len(examples) - len(positives)
    target = min(len(positives), round(share / (1 - share) * negatives))
    order = np.random.default_rng(SEED).permutation(positives)
    dropped = set(order[target:].tolist())
    return [example for number, example in enumerate(examples) if number not in dropped]


if __name__ == "__main__":
    main(sys.argv[1:])
