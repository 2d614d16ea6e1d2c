"""A comparison by F-beta tests the number that each run scores."""

import numpy as np
import pytest
from sklearn import metrics

from dicejax.data.examples import LabelledText
from dicejax.objectives import CrossEntropy, Dice
from dicejax.study.compare import results
from dicejax.study.compare.statistics import columns_of
from dicejax.tasks import Classification, Prediction, scoring

from .made_runs import made, record_of, run_of

LABELS = ("ok", "bad")


@pytest.mark.parametrize(("metric", "beta"), [("f2", 2.0), ("f0.5:bad", 0.5)])
def test_differences_are_those_of_scikit_learn(metric, beta, tmp_path):
    jobs = made(tmp_path, (CrossEntropy(), Dice()), 3)
    gold = np.where(np.arange(300) % 5, "ok", "bad")
    examples = [LabelledText("x", None, c, str(n), n) for n, c in enumerate(gold)]
    task, expected = Classification(primary_metric=metric), {"ce": [], "dice": []}
    for job in jobs:
        rng = np.random.default_rng([job.seed, len(job.loss)])
        is_right = rng.random(300) < (0.9 if job.loss == "ce" else 0.6)
        guesses = np.where(is_right, gold, rng.choice(LABELS, 300))
        decided = [Prediction((c,), dict.fromkeys(LABELS, 0.5)) for c in guesses]
        scores, shares = scoring.score(task, examples, decided, LABELS)
        run, test = run_of(job), scores.to_json()
        run.write_result({**run.result(), "primary_metric": metric, "test": test})
        run.write_statistics(shares)
        expected[job.loss].append(
            metrics.fbeta_score(gold, guesses, beta=beta, pos_label="bad")
        )
    comparison = results.evaluate_runs(jobs, str(tmp_path))
    baseline, row = comparison.rows
    assert baseline.scores(metric) == pytest.approx(expected["ce"], abs=1e-12)
    differences = np.subtract(expected["dice"], expected["ce"])
    assert row.against.differences == pytest.approx(differences, abs=1e-12)
    assert row.against.crossed.mean == pytest.approx(differences.mean(), abs=1e-12)
    name = f"F{beta:g} of 'bad'"
    assert (comparison.rows[0].metric, next(iter(columns_of(comparison.rows)))) == (
        (name, name)
    )
    assert record_of(tmp_path)["primary_metric"] == metric
