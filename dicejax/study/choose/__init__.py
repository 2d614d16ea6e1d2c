"""Choose a model within a time: select on dev, confirm once on test."""

from __future__ import annotations

import dataclasses
import os

from etils import epath

from dicejax import config
from dicejax.config import ExperimentOrFile
from dicejax.errors import InputError
from dicejax.study.choose.confirm import FOLDER, SEED, confirm
from dicejax.study.choose.search import Search, with_tuned_threshold
from dicejax.study.choose.settings import Setting
from dicejax.study.compare.jobs import Job
from dicejax.study.compare.record import Comparison
from dicejax.study.compare.same_data import DataCheck
from dicejax.study.compare.testing import MARGIN
from dicejax.study.compare.until import seconds_of
from dicejax.study.sentences import sentences
from dicejax.study.significance import MIN_SEEDS
from dicejax.tasks.judged import require_attainable
from dicejax.training.encoded import load_corpus
from dicejax.training.progress import Progress, progress_of

MOST_SEEDS = 10
"""Runs of each of the two settings that are confirmed, at most."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Choice:
    """What was chosen, with what it was compared, and the run to use.

    Attributes:
      chosen: the best setting on dev.
      control: the cheapest model without fine-tuning that dev does not separate from
        it; None where there is nothing cheaper.
      advised: the one of both to use.
      run: a run of that.
      comparison: the confirmation on test.
      sentence: what test says.
      tried: number of settings that were tried.
      seconds: time of the trials.
    """

    chosen: Setting
    control: Setting | None
    advised: Setting
    run: str
    comparison: Comparison
    sentence: str
    tried: int
    seconds: float

    def __repr__(self) -> str:
        return f"Choice({self.advised.name}: {self.sentence})"


def choose(
    experiment: ExperimentOrFile,
    budget: str = "30m",
    *,
    out: str | os.PathLike[str] | None = None,
    margin: float = 100 * MARGIN,
    progress: Progress = None,
) -> Choice:
    """Choose a model for an experiment within a time, with a statement that holds.

    Models that are no fine-tuned encoders are tried first, then cross-entropy, with
    class weights and with a better head, then rates, rates of the head, updates, and
    other losses: all are scored on dev. The best on dev and the cheapest of the first
    that dev does not separate from it are then trained with fresh seeds, and test is
    scored once, so that what is said of it holds whatever was tried before.

    An interrupted choice goes on, and one with a longer budget goes on from there.

    Args:
      experiment: experiment to choose for, or the path of a file; its own loss or
        control plays no part.
      budget: time of all, such as 30m or 2h.
      out: output directory; runs/NAME/choose by default.
      margin: differences within this many points do not matter in practice.
      progress: whether progress is shown, or the display that shows it.

    Raises:
      InputError: the experiment or its data cannot be used, test is dev, dev is too
        small for the constraint of the threshold, the folder holds a choice for another
        experiment or other data, or the budget is no time.
      Stopped: a signal interrupted training.
    """
    experiment = dataclasses.replace(config.load(experiment), control=None)
    limit = seconds_of(budget)
    folder = os.fspath(out or f"runs/{experiment.name}/choose")
    corpus = load_corpus(experiment, lambda note: None)
    if corpus.test == corpus.dev:
        raise InputError(
            "test is dev, on which the choice is made: name another with --data.test"
        )
    experiment = with_tuned_threshold(experiment, corpus.train)
    task = experiment.task
    if task.threshold_rule is not None and task.threshold_rule.constraint is not None:
        judged = task.judge(corpus.dev, task.label_names(corpus.train))
        constraint = task.threshold_rule.constraint
        require_attainable(constraint, judged, experiment.training.epochs)
    with progress_of(progress) as display:
        search = Search(experiment, folder, display)
        runs = sorted(epath.Path(folder).glob("*/*/seed-*"))
        earlier = [Job(run.parent.name, experiment, str(run)) for run in runs]
        DataCheck(display.note, "name another --out")(earlier, trains=True)
        search.run(limit)
        if not search.trials:
            raise InputError(f"--budget {budget} is over before anything was tried")
        chosen = search.chosen()
        control = search.control(chosen)
        pair = [chosen] if control is None else [control, chosen]
        once = sum(search.expected(x) for x in pair if x.is_plain)
        expected = sum(search.expected(x) for x in pair if not x.is_plain)
        left = limit - search.seconds - once
        most = int(left / expected) if expected else MIN_SEEDS
        seeds = min(max(most, MIN_SEEDS), MOST_SEEDS)
        comparison = confirm(
            experiment, pair, folder, display, seeds=seeds, margin=margin / 100
        )
        row = next(x for x in comparison.rows if x.loss == chosen.name)
        rival = comparison.rows[0]  # the choice itself where there is no control
        wins = row.outcome == "better" or row.failures.share == 0 < rival.failures.share
        advised = chosen if control is None or wins else control
        sentence = sentences("choose").choice(row, control and rival, len(search.tried))
        record = {"chosen": chosen, "control": control, "advised": advised.name}
        search.write({**record, "sentence": sentence})
    return Choice(
        chosen=chosen,
        control=control,
        advised=advised,
        run=str(epath.Path(folder) / FOLDER / advised.name / f"seed-{SEED}"),
        comparison=comparison,
        sentence=sentence,
        tried=len(search.tried),
        seconds=search.seconds,
    )
