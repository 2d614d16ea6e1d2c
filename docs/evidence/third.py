"""Third protocol: data sets, encoders, arms, and the search for the settings of an arm.

What is to be run next follows from what is archived, see `Cell.waiting`; `worker.py`
runs it.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import archive
from etils import epath

from dicejax.cli import parse
from dicejax.config import Experiment
from dicejax.io.files import write_whole
from dicejax.objectives.parsing import candidate_named
from dicejax.study.compare.jobs import Job, scored, with_seed
from dicejax.training.candidate import with_candidate
from dicejax.training.run_folder import Run as RunFolder

ROOT = Path(__file__).parents[2]
PART = "third"
"""The folder of the archives."""
ARMS = {
    "ce+prior": "ce+prior",
    "dsc": "dsc:smooth=0.01",
    "dsc+prior": "dsc+prior:smooth=0.01",
    "ce": "ce",
    "wce": "wce",
    "focal+prior": "focal+prior",
}
"""The loss of each arm, as given to `compare`, in the order of the runs."""
SEEDS = range(30, 40)
FIRST_SEED, *MORE_SEEDS = TRIAL_SEEDS = (20, 21, 22)
LENGTHS = (64, 16, 220)
"""Updates, in the order of the runs; the settings are chosen at the first."""
FACTORS = (0.3, 1.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
"""Rates of the head, as factors of the encoder's."""
FIRST_FACTOR = 10.0
CLOSE = 0.03
"""A setting further behind the best with the first seed gets no other seeds."""
MOST = 16
"""Settings of an arm that are tried at most: as many as four rates by four factors."""
KEPT_OF_TRIALS = ("steps", "seconds", "device_kind", "versions")
FLAGS = (
    *("--optimizer", "adamw", "--optimizer.warmup", "0.1"),
    *("--optimizer.weight_decay", "0.01", "--training.precision", "float32"),
)
"""Settings that all runs share."""


@dataclasses.dataclass(frozen=True)
class Encoder:
    """A pretrained encoder.

    Attributes:
      rates: from the smallest to the largest that the search may reach.
      first: those that it begins with.
    """

    name: str
    rates: tuple[float, ...]
    first: tuple[float, ...]


_SMALL = (2.5e-5, 5e-5, 1e-4, 2e-4, 4e-4, 8e-4, 1.6e-3, 3.2e-3, 6.4e-3)
_DEEP = (5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 4e-4, 8e-4, 1.6e-3)
MINILM = Encoder("minilm", _SMALL, _SMALL[3:7])
MPNET = Encoder("mpnet", _DEEP, _DEEP[2:6])
MULTILINGUAL = Encoder("multilingual", _DEEP, _DEEP[2:6])


@dataclasses.dataclass(frozen=True, eq=False)
class DataSet:
    """A data set with its task.

    Attributes:
      name: of the data, in its archives.
      experiment: the file of its experiment, from the root of the repository.
      folder: of the data, from that of all data.
      flags: further settings of its runs.
      samples: examples and epochs of each length.
    """

    name: str
    experiment: str
    folder: str
    flags: tuple[str, ...]
    samples: Mapping[int, tuple[int, int]]


CONLL = DataSet(
    "conll2003",
    "experiments/ner/conll03.py",
    "conll2003",
    ("--data.max_dev", "1000", "--training.rows_per_update", "5"),
    {64: (1000, 2), 16: (250, 2), 220: (3500, 2)},
)
SST2 = DataSet(
    "sst2",
    "experiments/ablations/sst2.py",
    "sst2_held_out/5",
    (
        *("--task.primary_metric", "f1", "--task.tune_threshold"),
        *("--task.positive", "1", "--encoder.pooling", "mean"),
        *("--training.rows_per_update", "4"),
    ),
    {64: (1200, 2), 16: (300, 2), 220: (4000, 2)},
)
UD_ENGLISH = DataSet(
    "ud_english",
    "docs/evidence/ud_english.py",
    "ud_english_ewt",
    ("--data.max_dev", "1000", "--training.rows_per_update", "5"),
    {64: (1000, 2), 16: (250, 2), 220: (3500, 2)},
)
MSRA = DataSet(
    "msra",
    "docs/evidence/msra_tagging.py",
    "msra",
    ("--data.max_dev", "1000", "--training.rows_per_update", "5"),
    {64: (400, 2), 16: (100, 2), 220: (1350, 2)},
)
CLUENER = DataSet(
    "cluener",
    "docs/evidence/cluener_tagging.py",
    "cluener2020",
    ("--data.max_dev", "1000", "--training.rows_per_update", "5"),
    {64: (420, 2), 16: (105, 2), 220: (1450, 2)},
)


@dataclasses.dataclass(frozen=True)
class Setting:
    """Rate of the encoder, and that of the head as a factor of it."""

    rate: float
    factor: float


Scores = Mapping[tuple[Setting, int], float]
"""Dev scores of an arm's trials by setting and seed; 0 where one diverged."""


@dataclasses.dataclass(frozen=True)
class Cell:
    """A data set with an encoder, at all lengths.

    Attributes:
      data: the data set.
      encoder: the encoder.
      arms: names of its arms, in the order of the runs; others than `ARMS` are losses.
      seeds: of its runs.
      part: the folder of its archives.
      settings: those of its arms, where nothing is searched.
    """

    data: DataSet
    encoder: Encoder
    arms: tuple[str, ...] = tuple(ARMS)
    seeds: range = SEEDS
    part: str = PART
    settings: Mapping[str, Setting] | None = None

    @property
    def name(self) -> str:
        """Name of data and encoder."""
        return f"{self.data.name}-{self.encoder.name}"

    def archive_of(self, length: int) -> str:
        """Return the name of the archive of a length."""
        return f"{self.part}/{self.name}-{length}"

    @property
    def trials_file(self) -> Path:
        """The file of its trials, a JSON object a line."""
        return archive.SCORES / PART / f"{self.name}-trials.jsonl"

    def trials(self) -> list[dict[str, Any]]:
        """Return the records of its trials so far."""
        return _lines(self.trials_file)

    def scores(self, arm: str) -> Scores:
        """Return the dev scores of the trials of an arm so far."""
        return {
            (Setting(x["rate"], x["factor"]), x["seed"]): x["dev"] or 0.0
            for x in self.trials()
            if x["arm"] == arm
        }

    def chosen(self) -> dict[str, Setting]:
        """Return the settings of the arms whose search is over."""
        if self.settings is not None:
            return {arm: self.settings[arm] for arm in self.arms}
        found = {arm: searched(self.scores(arm), self.encoder) for arm in self.arms}
        return {arm: best for arm, (waiting, best) in found.items() if not waiting}

    def waiting(self, length: int) -> list[Run]:
        """Return the runs to do next, as far as they are known; none at the end.

        They are trials until all arms have their settings, and then the runs of a
        length, seed by seed.
        """
        trials = [
            Run(self, arm, setting, seed, None)
            for arm in (self.arms if self.settings is None else ())
            for setting, seed in searched(self.scores(arm), self.encoder)[0]
        ]
        if trials:
            return trials
        ended = {(x.loss, x.seed) for x in archive.read(self.archive_of(length)).runs}
        return [
            Run(self, arm, setting, seed, length)
            for seed in self.seeds
            for arm, setting in self.chosen().items()
            if (arm, seed) not in ended
        ]

    def command(self, length: int, data: str, encoder: str) -> list[str]:
        """Return the words of the command that trains one run, without its arm."""
        sample, epochs = self.data.samples[length]
        return [
            *("dicejax", "train", self.data.experiment),
            *("--data.dir", f"{data}/{self.data.folder}", "--encoder.path", encoder),
            *FLAGS,
            *self.data.flags,
            *("--data.max_train", str(sample), "--training.epochs", str(epochs)),
        ]


@dataclasses.dataclass(frozen=True)
class Run:
    """A run of a cell: a trial, scored on dev alone, if it has no length."""

    cell: Cell
    arm: str
    setting: Setting
    seed: int
    length: int | None

    @property
    def folder(self) -> Path:
        """Its folder in that of all runs."""
        at = f"{self.setting.rate:g}-{self.setting.factor:g}"
        name = "trials" if self.length is None else str(self.length)
        return Path(self.cell.name, name, self.arm, at, f"seed-{self.seed}")

    def job(self, folder: Path, data: Path, encoder: Path) -> Job:
        """Return what is trained.

        Args:
          folder: of all runs.
          data: folder of all data.
          encoder: folder of the encoder.
        """
        length = LENGTHS[0] if self.length is None else self.length
        base = _parsed(tuple(self.cell.command(length, str(data), str(encoder))))
        optimizer = dataclasses.replace(
            base.optimizer,
            learning_rate=self.setting.rate,
            head_learning_rate=self.setting.factor,
        )
        seeded = with_seed(base, self.seed, resample=True)
        seeded = dataclasses.replace(seeded, optimizer=optimizer)
        experiment = with_candidate(
            seeded, candidate_named(ARMS.get(self.arm, self.arm))
        )
        return Job(self.arm, experiment, str(folder / self.folder))

    def archive(self, job: Job) -> str:
        """Add what has ended to the archive of the cell; return its score in words."""
        ended = RunFolder(epath.Path(job.folder))
        if self.length is None:
            result = ended.result() if ended.is_finished else {}
            dev = result.get("best_dev_score")
            line = {
                "arm": self.arm,
                **dataclasses.asdict(self.setting),
                "seed": self.seed,
                "dev": dev,
                **{name: result.get(name) for name in KEPT_OF_TRIALS},
            }
            write_trials(self.cell.trials_file, [*self.cell.trials(), line])
            return "diverged" if dev is None else f"dev {100 * dev:.2f}"
        outcome = scored(job)
        if outcome.result:
            settings = dataclasses.asdict(self.setting)
            lines = ended.records("metrics.jsonl")
            losses = [[line["step"], line["loss"]] for line in lines if "loss" in line]
            result = {**outcome.result, "settings": settings, "losses": losses}
            outcome = dataclasses.replace(outcome, result=result)
        name = self.cell.archive_of(self.length)
        new = archive.Archived((outcome,), (), {})
        archive.write(archive.merged(archive.read(name), new), archive.file_of(name))
        return f"test {100 * outcome.score:.2f}" if outcome.result else outcome.status


_WITH = {
    MINILM: (CONLL, SST2, UD_ENGLISH),
    MULTILINGUAL: (MSRA, CLUENER),
    MPNET: (CONLL, SST2, UD_ENGLISH),
}
CELLS = tuple(Cell(data, encoder) for encoder, some in _WITH.items() for data in some)
"""Data sets and encoders, in the order of the protocol."""


def searched(
    scores: Scores, encoder: Encoder
) -> tuple[list[tuple[Setting, int]], Setting]:
    """Return the trials that a search wants next, by setting and seed, and its best.

    It begins with the encoder's first rates at `FIRST_FACTOR`, and then tries the
    neighbours of the best setting in rate and in factor until all of them are tried, or
    `MOST` settings. A setting is tried with the first seed, and with the others if it
    is then no more than `CLOSE` behind; the best has the largest mean over all seeds.
    """
    tried = [Setting(rate, FIRST_FACTOR) for rate in encoder.first]
    while True:
        best = tried[0]
        if waiting := [(s, FIRST_SEED) for s in tried if (s, FIRST_SEED) not in scores]:
            return waiting, best
        least = max(scores[s, FIRST_SEED] for s in tried) - CLOSE
        close = [s for s in tried if scores[s, FIRST_SEED] >= least]
        pairs = [(s, seed) for s in close for seed in MORE_SEEDS]
        if waiting := [pair for pair in pairs if pair not in scores]:
            return waiting, best
        means = [statistics.fmean(scores[s, x] for x in TRIAL_SEEDS) for s in close]
        best = close[means.index(max(means))]
        new = [s for s in _neighbours(best, encoder) if s not in tried]
        if not new or len(tried) + len(new) > MOST:
            return [], best
        tried += new


def _neighbours(setting: Setting, encoder: Encoder) -> list[Setting]:
    """Return the settings one step from one, in the rate or in the factor."""
    rate, factor = encoder.rates.index(setting.rate), FACTORS.index(setting.factor)
    rates = encoder.rates[max(rate - 1, 0) : rate + 2]
    factors = FACTORS[max(factor - 1, 0) : factor + 2]
    around = [Setting(x, setting.factor) for x in rates]
    around += [Setting(setting.rate, x) for x in factors]
    return [each for each in around if each != setting]


def write_trials(file: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    """Write the file of the trials of a cell."""
    file.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(line) + "\n" for line in lines)
    write_whole(epath.Path(file.parent), file.name, text)


def merge_trials(file: Path) -> int:
    """Add the trials in a file to those of the cell of its name; return their number.

    Of a trial that both have ours stays.
    """
    ours = archive.SCORES / PART / file.name
    keys = ("arm", "rate", "factor", "seed")
    by_key = {
        tuple(line[key] for key in keys): line
        for line in [*_lines(file), *_lines(ours)]
    }
    write_trials(ours, [by_key[key] for key in sorted(by_key)])
    return len(by_key)


def _lines(file: Path) -> list[dict[str, Any]]:
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text().splitlines()]


@functools.cache
def _parsed(command: tuple[str, ...]) -> Experiment:
    file, *flags = command[2:]
    return parse(["train", str(ROOT / file), *flags]).settings
