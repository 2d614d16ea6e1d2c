"""Whether runs that are compared were made from the same data and encoder."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from etils import epath

from dicejax.config import Experiment
from dicejax.errors import InputError, quote
from dicejax.formats import FileSource
from dicejax.io import files
from dicejax.study.compare.jobs import Job, ScoredRun
from dicejax.training.encoded import identity_of, noun_of
from dicejax.training.identity import Identity, changed
from dicejax.training.run_folder import DATA, EXPERIMENT, Run


def require_one_data(runs: Sequence[ScoredRun]) -> None:
    """Raise an InputError unless runs have one data, encoder and primary metric.

    Samples of train that are drawn for each seed count as one, if what they are drawn
    from is. Runs of versions that kept no checksum of a part are taken as they are.
    """
    finished = [run for run in runs if run.result]
    firsts: dict[tuple[str, str], ScoredRun] = {}
    others: dict[str, list[ScoredRun]] = {}
    for run in finished:
        positive, first = (
            each.result["test"].get("positive") for each in (run, finished[0])
        )
        if positive != first:
            raise InputError(
                f"{run.folder}: its scores are those of {quote(positive)}, and those "
                f"of {finished[0].folder} of {quote(first)}, so they cannot be "
                "compared; train all with one --task.positive"
            )
        if run.result["primary_metric"] != finished[0].result["primary_metric"]:
            raise InputError(
                f"{run.folder}: the primary metric differs from that of "
                f"{finished[0].folder}; their scores cannot be compared"
            )
        for part, checksum in (run.result.get("checksums") or {}).items():
            begun = run.experiment if part == "train" else None
            key = part, "" if begun is None else _pool_of(begun)
            other = firsts.setdefault(key, run)
            if other.result["checksums"][part] != checksum:
                others.setdefault(part, []).append(run)
    if not others:
        return
    texts = []
    for part, runs in others.items():
        is_other = {run.folder for run in runs}
        same = [run for run in finished if run.folder not in is_other]
        text = f"{part} of {names_of(runs)} is not that of {names_of(same)}"
        paths = [epath.Path(some[0].folder) for some in (runs, same)]
        # Outcomes of an archive have no folder.
        now, before = (Run(x).identity() if x.exists() else None for x in paths)
        changes = {} if now is None or before is None else now.changes(before)
        texts.append(f"{text}: {changes[part]}" if part in changes else text)
    raise InputError(
        f"{'; '.join(texts)}; their scores cannot be compared: train one of these "
        "again with --overwrite, or leave it out"
    )


def warn_of_changes(jobs: Sequence[Job], warn: Callable[[str], None]) -> None:
    """Warn of data that have changed since finished runs, or that cannot be read."""
    ready = []
    is_read = True
    for job in jobs:
        run = Run(epath.Path(job.folder))
        if not (run.is_finished and files.was_written(run.path, DATA)):
            continue
        try:  # as `evaluate` reads it: nothing is fetched
            ready.append(dataclasses.replace(job, experiment=run.offline_experiment()))
        except InputError:
            is_read = False
    check = DataCheck(warn, "dicejax compare with --overwrite trains them again")
    check(ready, trains=False)
    if not (is_read and check.is_read):
        warn(
            "the data or the encoder of these runs cannot be read here, so whether "
            "they have changed since is not known"
        )


class DataCheck:
    """Comparison of the data as it is now with that of runs that exist.

    Args:
      notify: called with what has changed, where nothing is to be trained.
      do: what trains or keeps the runs.

    Attributes:
      changed: parts that have changed since a run.
    """

    def __init__(
        self,
        notify: Callable[[str], None],
        remedy: str = "--overwrite trains them again, --out NEW keeps them",
    ):
        self._notify, self._remedy = notify, remedy
        self._now: dict[str, Identity | None] = {}
        self.changed: set[str] = set()

    def __call__(self, jobs: Sequence[Job], *, trains: bool) -> None:
        """Compare the data with that of runs which are used again or resumed.

        Raises:
          InputError: it has changed, and something is to be trained.
        """
        since: dict[tuple[str, str], list[Job]] = {}
        for job in jobs:
            run = Run(epath.Path(job.folder))
            is_there = (run.path / EXPERIMENT).exists()
            now = self._identity(job.experiment) if is_there else None
            if now is not None:
                changes = run.changes(now, noun_of(job.experiment))
                for change in changes.items():
                    since.setdefault(change, []).append(job)
        if not since:
            return
        self.changed |= {part for part, _ in since}
        texts = (
            changed({part: text}, names_of(some))
            for (part, text), some in since.items()
        )
        text = "; ".join(texts)
        if trains:
            raise InputError(f"{text}; {self._remedy}")
        self._notify(f"{text}; their scores are of the data before; {self._remedy}")

    @property
    def is_read(self) -> bool:
        """Whether all data and encoders so far could be read."""
        return None not in self._now.values()

    def _identity(self, experiment: Experiment) -> Identity | None:
        key = f"{_pool_of(experiment)} {experiment.encoder}"
        if key not in self._now:
            self._now[key] = identity_of(experiment)
        return self._now[key]


def _pool_of(experiment: Experiment) -> str:
    """Return what the sample of train is drawn from: the source without its seed."""
    data = experiment.data
    if isinstance(data, FileSource):  # whose checksum is that of all examples
        data = dataclasses.replace(data, train_sample=None)
    return repr(data)


def names_of(runs: Sequence[Job | ScoredRun]) -> str:
    """Return the names of run folders, of losses with the same ones together.

    >>> losses, seeds = ("ce", "dice"), (0, 1, 2)
    >>> names_of([Job(loss, None, f"x/seed-{n}") for loss in losses for n in seeds])
    'seed-0 to seed-2 of ce, dice'
    >>> names_of([Job("ce", None, f"x/seed-{n}") for n in (0, 2)])
    'seed-0, seed-2 of ce'
    """
    by_loss: dict[str, dict[str, None]] = {}
    for run in runs:
        by_loss.setdefault(run.loss, {})[epath.Path(run.folder).name] = None
    by_names: dict[str, list[str]] = {}
    for loss, names in by_loss.items():
        first, *rest = names
        kind, _, number = first.rpartition("-")
        begin = int(number) if rest and number.isdecimal() else 0
        numbers = range(begin, begin + len(names)) if rest else ()
        is_row = list(names) == [f"{kind}-{n}" for n in numbers]
        text = f"{first} to {rest[-1]}" if is_row else ", ".join(names)
        by_names.setdefault(text, []).append(loss)
    return "; ".join(f"{text} of {', '.join(x)}" for text, x in by_names.items())
