"""Base class of sources that read files."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from etils import epath

from dicejax.data.examples import labels_of
from dicejax.data.identity import digest
from dicejax.data.source import Corpus, Examples, Source
from dicejax.errors import InputError, quote
from dicejax.formats import audit, containers, held_out
from dicejax.formats.records import OnError, Skipped
from dicejax.formats.text import Predictions, Text
from dicejax.io import files, paths

Form = Literal["text", "jsonl", "conll", "csv"]  # see `texts`
Noted = tuple[Sequence[Any], list[str]]  # examples, and notes on those that changed

# Last part of the seed of each kind of draw, so that none repeats another's.
_HOLD_OUT, _SAMPLE, _HOLD_OUT_TEST, _LEAVE_OUT = 1, 2, 3, 4


def first_path(folder: files.Path, names: str) -> epath.Path:
    """Return the first of files joined by "+", the packed one where it is missing."""
    path = epath.Path(folder) / names.split("+")[0]
    packed = path.with_name(path.name + ".gz")
    return packed if not path.exists() and packed.exists() else path


@dataclasses.dataclass(frozen=True, kw_only=True)
class FileSource(Source):
    """Base class of data sets in three files of one folder.

    Args:
      dir: folder; local, or anything etils.epath opens (gs://, s3://).
      train: training file; join several by "+". NAME.gz is read where NAME is missing.
      dev: file that selects the best checkpoint; None holds out part of train.
      test: test file; None holds out part of train too or, where `test_share` is 0,
        takes the dev split, whose score then flatters.
      dev_share: share of train that is held out where `dev` is None.
      test_share: share of train that is held out where `test` is None.
      stratified: whether what is held out has its share of each label, equal texts stay
        together, and documents do where there are `held_out.MIN_UNITS` or more; else it
        is drawn at random.
      max_train: number of training examples, drawn at random; None takes all.
      max_dev: number of dev examples, drawn at random; None takes all.
      max_test: number of test examples, drawn at random; None takes all.
      sample_seed: seed of held-out splits and samples, not of the training run.
      train_sample: seed of the sample of train alone; None takes `sample_seed`.
      leave_out: part of train that is left out, so that the run can judge its labels:
        "2/5" is the second of five. Equal texts or documents stay together.
      on_error: "stop" at the first malformed example, or "skip" and report them.
    """

    dir: str
    train: str = "train.txt"
    dev: str | None = "dev.txt"
    test: str | None = "test.txt"
    dev_share: float = 0.1
    test_share: float = 0.0
    stratified: bool = True
    max_train: int | None = None
    max_dev: int | None = None
    max_test: int | None = None
    sample_seed: int = 0
    train_sample: int | None = None
    leave_out: str | None = None
    on_error: Literal["stop", "skip"] = "stop"

    noun: ClassVar[str] = "examples"  # plural of an example
    parted_by: ClassVar[str] = ""  # what parts examples
    _form: ClassVar[Form] = "text"

    @property
    def form(self) -> Form:
        """The form of files to predict that are like its own."""
        return self._form

    @classmethod
    def fits(cls, file: Any) -> bool:
        """Return whether a file looks so; of formats of one's own, see `kinds`."""
        del file
        return False

    @classmethod
    def recorded(cls, fields: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of a run's record; earlier versions drew at random."""
        holds_out = None in (fields.get("dev"), fields.get("test"))
        return {"stratified": False, **fields} if holds_out else fields

    def __post_init__(self) -> None:
        if not 0 < self.dev_share < 1:
            raise ValueError(f"dev_share is {self.dev_share}; want between 0 and 1")
        if not 0 <= self.test_share < 1 - self.dev_share:
            fault = f"test_share is {self.test_share} and dev_share {self.dev_share}"
            raise ValueError(f"{fault}; want what leaves some for train, 0 included")
        self._check_counts("max_train", "max_dev", "max_test")
        if self.leave_out is not None:
            held_out.part_of(self.leave_out)
        if min(self.sample_seed, self.train_sample or 0) < 0:
            raise ValueError("sample_seed and train_sample want at least 0")

    @classmethod
    def read_file(
        cls, path: files.Path, *, on_error: OnError | None = None, **fields: Any
    ) -> Any:
        """Read one file as a source with these fields does; see `read`.

        Raises:
          ValueError: the fields cannot be those of a source.
        """
        return cls(dir="", **fields).read(path, on_error)

    def read(self, path: files.Path, on_error: OnError | None) -> Sequence[Any]:
        """Read one file; a format has this method or `read_with_notes`.

        Args:
          path: the file.
          on_error: called with each skipped example's error; None raises the first.

        Raises:
          InputError: the file is missing or malformed.
        """
        return self.read_with_notes(path, on_error)[0]

    def texts(self, path: files.Path, stream: files.Stream = None) -> Iterable[Text]:
        """Read the examples of a file to predict, in the way of the training files.

        Gold may be missing; where it is there it is not looked at. The file is read on
        as examples are taken, so that any number are predicted in little memory.

        Args:
          path: the file.
          stream: read in the place of the path.

        Raises:
          InputError: the file is missing or malformed.
        """
        return itertools.starmap(Text, files.lines(path, stream=stream))

    def without_gold(
        self, texts: Iterable[Text], labels: Collection[str]
    ) -> Iterable[Text]:
        """Return texts without gold that only the labels of a run tell from them.

        They can be looped over as often as the texts given.
        """
        del labels
        return texts

    def words_of(self, text: str) -> tuple[str, ...] | None:
        """Divide a text as the training files were; None where spaces divide them."""
        del text
        return None

    def write(self, text: Text, record: Mapping[str, Any]) -> str:
        """Return an example with its prediction where the training files have gold.

        Args:
          text: the example.
          record: its prediction, as `tasks` show it.

        Raises:
          InputError: the format has no such method.
        """
        return json.dumps(self.fields_with(text, record), ensure_ascii=False)

    def fields_with(self, text: Text, record: Mapping[str, Any]) -> dict[str, Any]:
        """Return the object of an example with its prediction in place of gold.

        Raises:
          InputError: the format has no such method.
        """
        fault = f"{type(self).__name__} has no method that writes predictions"
        raise InputError(f"{fault}; name another --out_format")

    def lines(self, pairs: Predictions, first: str = "") -> Iterator[str]:
        """Yield the lines of a file like the training files, gold replaced.

        Args:
          pairs: examples with their predictions.
          first: first line of the file that they are for, where there is one.
        """
        del first
        for text, record in pairs:
            yield "" if text.is_blank else self.write(text, record)

    def read_with_notes(self, path: files.Path, on_error: OnError | None) -> Noted:
        """Read one file; also return notes on examples that were changed."""
        return self.read(path, on_error), []

    def unit(self, example: Any) -> Hashable:
        """Return a key shared by examples that must stay in one split; None: no key."""
        del example
        return None

    def is_in(self, folder: files.Path) -> bool:
        """Return whether a folder holds the training file."""
        return first_path(folder, self.train).exists()

    def load(self) -> Corpus:
        """Read the files, hold out missing splits, draw samples.

        Raises:
          InputError: a file is missing or malformed; the message names file and line.
        """
        folder = epath.Path(self.dir)
        if not folder.is_dir():
            names = [name for name in (self.train, self.dev, self.test) if name]
            raise InputError(
                f"{self.dir}: no such folder{paths.tried(self.dir)}; name the one that "
                f"holds {' and '.join(dict.fromkeys(names))} (train: --data.dir, "
                "evaluate: --data, export: --data)"
            )
        if not self.is_in(folder) and not os.path.isabs(self.dir):
            raise InputError(
                f"{first_path(folder, self.train)}: no such file"
                f"{paths.tried(self.dir)}; check the name, or name its folder (train: "
                "--data.dir, evaluate: --data, export: --data)"
            )
        remarks: dict[str, list[str]] = {}
        splits = {"train": self._split(self.train, remarks)}
        held = list[str]()
        together: held_out.Together | None = None  # None: drawn at random
        # Dev is a share of the rest, rescaled to the share of the whole.
        rest = 1 - (self.test is None) * self.test_share
        for name, share in (("test", self.test_share), ("dev", self.dev_share / rest)):
            if (file := getattr(self, name)) is not None:
                splits[name] = self._split(file, remarks)
            elif share:
                train = splits["train"]
                if not held and self.stratified and any(map(labels_of, train)):
                    together = held_out.together(train)  # of test and dev alike
                parts = self._hold_out(train, share, name, together)
                splits["train"], splits[name] = parts
                held.insert(0, name)
        notes = [f"{', '.join(paths)}: {text}" for text, paths in remarks.items()]
        if held:
            sizes = (f"{len(splits[name])} {name}" for name in ("train", *held))
            note = f"split {self.train} into {' / '.join(sizes)}"
            how = "random" if together is None else "a share of each label"
            how += f", {together} together" if together else ""
            notes.append(f"{note} {self.noun} ({how})")
        if "test" not in splits:
            notes.append(
                "no test split: scores are of dev, which selects the checkpoint, and "
                "therefore optimistic"
            )
        notes += [*self._left_out(folder), *audit.remarks(splits)]
        if "test" not in splits:
            splits["test"] = splits["dev"]
        digests = {}
        for number, name in enumerate(("train", "dev", "test")):
            examples, most = splits[name], getattr(self, f"max_{name}")
            if most is not None and most < len(examples):
                of_train = self.train_sample if name == "train" else None
                seed = self.sample_seed if of_train is None else of_train
                random = np.random.default_rng((seed, _SAMPLE, number))
                chosen = np.sort(random.permutation(len(examples))[:most])
                note = f"{name}: {most} of {len(examples)} {self.noun}"
                notes.append(f"{note} (random)")
                splits[name] = tuple(examples[place] for place in chosen)
                digests[name] = digest(examples)
        if self.leave_out is not None:
            digests.setdefault("train", digest(splits["train"]))
            splits["train"] = self._without_part(splits["train"], self.leave_out)
            note = f"train: {len(splits['train'])} {self.noun}"
            notes.append(f"{note}, without part {self.leave_out}")
        scored = ("dev",) if splits["test"] is splits["dev"] else ("dev", "test")
        for name in scored:
            notes += audit.lacking(splits["train"], splits[name], name)
        return Corpus(**splits, notes=tuple(notes), digests=digests)

    def _left_out(self, folder: epath.Path) -> list[str]:
        """Return a note on files beside those of splits, if there are any."""
        try:
            if containers.of_folder(folder)["train"] != self.train:
                return []  # a file among others
        except InputError:
            return []
        joined = "+".join(filter(None, (self.train, self.dev, self.test)))
        read = {part for name in joined.split("+") for part in (name, name + ".gz")}
        read |= {name.partition("/")[0] for name in read}
        names = [x.name for x in files.entries(folder) if x.name[0] != "."]
        rest = [name for name in names if name not in read]
        listed = audit.some_of([*map(quote, rest)])
        return [f"not read of {self.dir}: {listed}"] if rest else []

    def _split(self, names: str, notes: dict[str, list[str]]) -> Examples:
        examples: list[Any] = []
        for name in names.split("+"):
            path = first_path(self.dir, name)
            skipped = Skipped() if self.on_error == "skip" else None
            some, remarks = self.read_with_notes(path, skipped)
            examples += some
            if skipped is not None and skipped.count:
                remarks = [str(skipped), *remarks]
            for remark in remarks:
                where = notes.setdefault(remark, [str(path)])
                if str(path) != where[0] and path.name not in where:
                    where.append(path.name)
        return tuple(examples)

    def _without_part(self, examples: Examples, part: str) -> Examples:
        random = np.random.default_rng((self.sample_seed, _LEAVE_OUT))
        out = held_out.fold(examples, *held_out.part_of(part), random)
        units = held_out.units_of(examples, held_out.together(examples))
        pairs = zip(examples, units, strict=True)
        left = tuple(example for example, unit in pairs if unit not in out)
        if len(left) in (0, len(examples)):
            remedy = f"name fewer parts than {part}"
            raise InputError(f"{self.dir}: {self.train} has too few texts; {remedy}")
        return left

    def _hold_out(
        self,
        examples: Examples,
        share: float,
        split: str,
        together: held_out.Together | None,
    ) -> tuple[Examples, Examples]:
        """Part examples into those to keep and those to hold out, units kept whole."""
        others = held_out.units_of(examples, together or "")
        units: list[Hashable] = [
            other if (unit := self.unit(example)) is None else unit
            for example, other in zip(examples, others, strict=True)
        ]
        distinct = list(dict.fromkeys(units))
        draw = _HOLD_OUT if split == "dev" else _HOLD_OUT_TEST
        random = np.random.default_rng((self.sample_seed, draw))
        if together is None:
            order = random.permutation(len(distinct))
            count = min(max(1, round(share * len(order))), len(order) - 1)
            out = {distinct[place] for place in order[:count]}
        else:
            out = held_out.stratified(examples, units, share, random)
        if not out:
            fault = f"holds too few {self.noun} to hold some out for {split}"
            if len(examples) > 1:
                fault = f"has {len(examples)} {self.noun}, all about one text, "
                fault += f"which {split} cannot share; name a {split} file or add texts"
            elif self.parted_by:
                fault += f"; is {self.parted_by} missing between them?"
            raise InputError(f"{self.dir}: {self.train} {fault}")
        pairs = list(zip(examples, units, strict=True))
        return (
            tuple(example for example, unit in pairs if unit not in out),
            tuple(example for example, unit in pairs if unit in out),
        )
