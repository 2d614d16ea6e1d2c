"""What a run was made from: its data as read, and its pretrained encoder.

data.json   of each split the checksum, and that of each example; of the encoder's
            folder that of the weights
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import hashlib
import json
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from dicejax.data.identity import SplitDigest
from dicejax.errors import Flaw
from dicejax.io.json_text import field

WEIGHTS, TOKENIZER = "weights", "tokenizer"
_NAMES = {WEIGHTS: "the encoder", TOKENIZER: "the tokenizer"}
_OTHER = {WEIGHTS: "other weights", TOKENIZER: "other entries or steps"}


@dataclasses.dataclass(frozen=True, eq=False)
class Identity:
    """What a run was made from.

    Attributes:
      splits: digests of train, dev and test as they were read, before a sample of a
        split was drawn, words were replaced, or labels numbered.
      encoder: checksums of the weights and of the tokenizer of a pretrained encoder;
        empty for one that begins from random weights.
    """

    splits: Mapping[str, SplitDigest]
    encoder: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def checksums(self) -> dict[str, str]:
        """The checksum of each part by name, as `result.json` holds them."""
        return {k: x.checksum for k, x in self.splits.items()} | dict(self.encoder)

    def changes(
        self,
        earlier: Identity,
        noun: str = "examples",
        parts: Collection[str] | None = None,
    ) -> dict[str, str]:
        """Say how parts, by default all, differ from earlier ones, by name.

        A part that either lacks is left out.
        """
        texts = {}
        for name, split in self.splits.items():
            if name in earlier.splits:
                texts[name] = split.difference(earlier.splits[name], noun)
        for name, checksum in self.encoder.items():
            if earlier.encoder.get(name, checksum) != checksum:
                texts[name] = _OTHER[name]
        names = texts.keys() if parts is None else parts
        return {k: text for k, text in texts.items() if text and k in names}

    def to_json(self) -> dict[str, Any]:
        """Return plain dictionaries, the content of `data.json`."""
        splits = {
            name: {
                "checksum": split.checksum,
                "examples": base64.b64encode(
                    bytes(split.examples.astype("<u4"))
                ).decode(),
            }
            for name, split in self.splits.items()
        }
        return {"splits": splits, "encoder": dict(self.encoder)}

    @classmethod
    def from_json(cls, content: object) -> Identity:
        """Return the identity that `to_json` wrote; a Flaw if it is damaged."""
        splits = {}
        for name, split in field(content, "splits", dict).items():
            try:
                examples = base64.b64decode(
                    field(split, "examples", str), validate=True
                )
                numbers = np.frombuffer(examples, "<u4")
            except (binascii.Error, ValueError) as error:
                raise Flaw(f"{name} has damaged checksums", "train it again") from error
            splits[name] = SplitDigest(field(split, "checksum", str), numbers)
        encoder = field(content, "encoder", dict)
        return cls(splits, {name: field(encoder, name, str) for name in encoder})


def tokenizer_checksum(tokenizer: Tokenizer) -> str:
    """Return a checksum of a tokenizer's entries and steps."""
    content = json.dumps(json.loads(tokenizer.to_str()), sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


def changed(changes: Mapping[str, str], since: str) -> str:
    """Say what has changed since some runs.

    >>> changed({"train": "1 of 9 texts differs", "weights": "other weights"}, "a run")
    'train has changed since a run: 1 of 9 texts differs; the encoder has changed ...'
    """
    return "; ".join(
        f"{_NAMES.get(name, name)} has changed since {since}: {text}"
        for name, text in changes.items()
    )


def with_checksums(result: dict[str, Any]) -> dict[str, Any]:
    """Return a result with the checksums of the data that earlier versions had."""
    if "test_data" not in result:
        return result
    rest = {name: value for name, value in result.items() if name != "test_data"}
    return {**rest, "checksums": {"encoded test": result["test_data"]}}


def test_checksum(result: Mapping[str, Any]) -> str | int | None:
    """Return the checksum of the test set that a run was scored on."""
    sums = result.get("checksums") or {}
    return sums.get("test", sums.get("encoded test"))
