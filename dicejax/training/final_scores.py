"""Scores of the test split at the end of training, and the threshold of dev."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jax.sharding import Mesh

from dicejax.metrics.score_counts import count_scores
from dicejax.tasks import calibrated, scoring
from dicejax.training.loop_state import LoopState
from dicejax.training.outcome import by_example, choose_threshold, untaught
from dicejax.training.processes import is_main_process
from dicejax.training.restored import restore
from dicejax.training.run_folder import SCORE_COUNTS, Run
from dicejax.training.setup import Setup
from dicejax.training.state import TrainState


def score_test_split(
    setup: Setup,
    run: Run,
    mesh: Mesh,
    last: TrainState | None,
    loop: LoopState,
    between: Callable[[], None],
    say: Callable[[str], None],
    dev_by_step: Mapping[int, Sequence[Any]] = {},
) -> dict[str, Any]:
    """Score test with the best and the last checkpoint, and choose a threshold on dev.

    Without a last state, as of a control, there is one checkpoint. Of some steps the
    caller may have decoded dev already.

    Returns:
      The fields of `Result` from `best_step` on.
    """
    task, data = setup.experiment.task, setup.data
    best_step, best = restore(run, setup.network, "best", mesh)
    decoded = setup.decode(best, "test", mesh, count=count_scores, between=between)
    (candidates,) = decoded.candidates
    test, labels = (data.corpus.test, candidates), data.labels
    decided = [task.decide(candidate) for candidate in candidates]
    by_dev: dict[str, Any] = {}
    arrays = by_example(data.corpus.test, decided)
    rule = task.threshold_rule
    decides = rule is not None and (rule.tunes or rule.constraint is not None)
    epochs = setup.experiment.training.epochs
    dev: tuple[Sequence[Any], Sequence[Any]] = data.corpus.dev, []
    if decides or calibrated.has_probabilities(task):
        in_dev = dev_by_step.get(best_step)
        if in_dev is None:
            (in_dev,) = setup.decode(best, "dev", mesh, between=between).candidates
        dev = data.corpus.dev, in_dev
    if decides:
        tuned, by_dev, more = choose_threshold(task, dev, test, labels, epochs)
        say(f"threshold tuned on dev: {tuned}")
        arrays |= more
    if calibrated.has_probabilities(task):
        limit = by_dev["threshold"]["threshold"] if decides else None
        splits = {"dev": dev}
        if data.corpus.test != data.corpus.dev:
            splits["test"] = test
        made = {
            split: (examples, [task.decide(each, limit) for each in column])
            for split, (examples, column) in splits.items()
        }
        by_dev["calibration"] = calibrated.fit(task, made, limit)
    scores, shares = scoring.score(task, data.corpus.test, decided, labels)
    at_last = scores
    if is_main_process():
        if shares is not None:
            run.write_statistics(shares, **arrays)
        run.write_arrays(SCORE_COUNTS, decoded.counts)
    if last is not None and best_step < loop.step:
        (at_end,) = setup.decode(last.weights, "test", mesh, between=between).candidates
        at_last = setup.score(at_end, "test")
    return {
        "best_step": best_step,
        "test": scores.to_json(),
        "test_at_last_step": at_last.to_json(),
        "nothing_learnt": None
        if last is None
        else untaught(setup, mesh, decided, scores, loop, between),
        **by_dev,
    }
