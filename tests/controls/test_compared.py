"""Models that are no fine-tuned encoders take part in comparisons, and are advised."""

import dataclasses
import json

import numpy as np
import pytest

from dicejax import config
from dicejax.cli import run
from dicejax.config import Experiment, PretrainedEncoder
from dicejax.objectives import Control, CrossEntropy, Focal, FromPrior
from dicejax.objectives.parsing import candidate_named
from dicejax.study import compare as comparison
from dicejax.study import significance
from dicejax.study.compare.advice import cost, headline, recommended
from dicejax.study.compare.finding import jobs_from
from dicejax.study.compare.jobs import ScoredRun, plain_models
from dicejax.study.compare.record import Comparison
from dicejax.study.compare.statistics import rows_of
from dicejax.study.report.reproduce import experiment_of
from dicejax.study.report.sections import context
from dicejax.tasks import QuestionAnswering
from dicejax.training.candidate import candidate_of, with_candidate

from ..study.made_runs import EXPERIMENT, made, record_of, run_of, sentences

SEEDS = 6
PLAIN = ("majority", "tfidf", "frozen")


def scored(skills, *, alike=PLAIN):
    """Make runs of losses by their skills; those of some are alike for all seeds."""
    runs = []
    for place, (loss, skill) in enumerate(skills.items()):
        for seed in range(SEEDS):
            rng = np.random.default_rng([place, 0 if loss in alike else seed])
            shares = sentences(rng, skill)
            f1 = float(significance.score(shares))
            per_type = {"PER": {"f1": f1, "support": 900}}
            test = {"f1": f1, "per_type": per_type}
            result = {"primary_metric": "f1", "test": test}
            runs.append(
                ScoredRun(loss, seed, f"{loss}/{seed}", "finished", result, shares)
            )
    return runs


def rows(skills):
    controls = [x for x in skills if x in (*PLAIN, "wce")]
    return rows_of(scored(skills), "ce", controls=controls)


def test_models_follow_from_their_names():
    assert candidate_named("tfidf") == Control("tfidf")
    fitted = with_candidate(EXPERIMENT, Control("tfidf"))
    assert (fitted.control, fitted.objective) == ("tfidf", CrossEntropy())
    assert candidate_of(with_candidate(fitted, CrossEntropy())) == CrossEntropy()
    assert candidate_of(fitted) == Control("tfidf")
    assert config.from_json(config.to_json(fitted)) == fitted
    with pytest.raises(ValueError, match="want majority, tfidf, frozen"):
        Control("svm")


def test_frozen_needs_a_pretrained_encoder_and_questions_have_none():
    assert plain_models(EXPERIMENT) == ["majority", "tfidf"]
    pretrained = dataclasses.replace(EXPERIMENT, encoder=PretrainedEncoder(path="x"))
    assert plain_models(pretrained) == [*PLAIN]
    questions = dataclasses.replace(EXPERIMENT, task=QuestionAnswering())
    assert plain_models(questions) == []


def test_updates_are_those_of_a_training_though_a_control_comes_first():
    runs = scored({"tfidf": 0.6, "wce": 0.6})
    for run_ in runs:
        run_.result["steps"] = 0 if run_.loss == "tfidf" else 64
    settings = json.loads(config.to_json(EXPERIMENT))
    of_both = [
        dataclasses.replace(row, settings=settings) for row in rows_of(runs, "tfidf")
    ]
    both = Comparison(name="mine", rows=tuple(of_both))
    assert context(both, experiment_of(both)[0])["Training"].startswith("64 updates, ")


def test_the_cheapest_that_nothing_is_shown_to_beat_is_advised():
    # Alike, so that the cheaper one is advised though it is behind by chance.
    of_words = rows({"ce": 0.6, "focal": 0.6, "majority": 0.2, "tfidf": 0.6})
    assert recommended(of_words).loss == "tfidf"
    first, _, detail = headline(of_words).partition("\n")
    assert first == (
        "Use a logistic regression on words (tfidf): no fine-tuned encoder is shown to "
        "beat it."
    )
    assert "95% CI" in detail
    ordered = sorted(of_words, key=cost)
    assert [row.loss for row in ordered] == ["majority", "tfidf", "ce", "focal"]


def test_a_model_that_is_beaten_is_not_advised():
    of_losses = rows({"ce": 0.5, "focal": 0.7, "majority": 0.2, "tfidf": 0.45})
    assert recommended(of_losses).loss == "focal"
    of_ce = rows({"ce": 0.7, "focal": 0.6, "majority": 0.2, "tfidf": 0.45})
    assert recommended(of_ce) is None
    # Level with cross-entropy, and beaten by a loss.
    level = rows({"ce": 0.5, "focal": 0.7, "majority": 0.2, "tfidf": 0.5})
    assert recommended(level).loss == "focal"


def test_a_model_that_another_is_ahead_of_is_not_advised_though_no_verdict_says_so():
    compared = rows({"ce": 0.6, "majority": 0.2, "tfidf": 0.535, "frozen": 0.58})
    (of_words,) = [row for row in compared if row.loss == "tfidf"]
    assert of_words.against.crossed.high < 0
    assert of_words.outcome == "inconclusive"  # adjusted for several such models
    assert recommended(compared).loss == "frozen"


def test_no_model_is_better_than_the_most_frequent_class():
    alike = rows({"ce": 0.3, "focal": 0.3, "majority": 0.3, "tfidf": 0.3})
    assert headline(alike).startswith("Not shown to learn: no model is shown")


def test_runs_that_are_alike_are_no_failures():
    (_, *others) = rows({"ce": 0.5, "focal": 0.5, "tfidf": 0.7})
    (of_words,) = [row for row in others if row.loss == "tfidf"]
    assert of_words.outcome == "better"
    assert not of_words.failures.seeds
    assert of_words.against.is_tested


def test_difference_of_two_that_are_alike_is_over_examples():
    pair = rows({"ce": 0.5, "majority": 0.2, "tfidf": 0.7})
    (of_words,) = [row for row in pair if row.loss == "tfidf"]
    versus = of_words.versus["majority"]
    assert versus.verdict.outcome == "better"
    ours, other = (
        next(
            x for x in scored({"ce": 0.5, "majority": 0.2, "tfidf": 0.7}) if x.loss == k
        )
        for k in ("tfidf", "majority")
    )
    assert versus.mean == pytest.approx(ours.score - other.score)
    # The bootstrap over examples, which knows nothing of seeds.
    rng, n = np.random.default_rng(0), len(ours.example_statistics)
    drawn = rng.integers(0, n, (2000, n))
    gains = [
        significance.score(ours.example_statistics[x])
        - significance.score(other.example_statistics[x])
        for x in drawn
    ]
    low, high = np.quantile(gains, [0.025, 0.975])
    width = versus.crossed.high - versus.crossed.low
    assert 0.8 < width / (high - low) < 1.3


def test_made_runs_are_found_again(tmp_path):
    made(tmp_path, [CrossEntropy(), Focal(), Control("tfidf")], 3)
    jobs = jobs_from([str(tmp_path)])
    assert {job.loss for job in jobs} == {"ce", "focal", "tfidf"}
    assert run(["report", str(tmp_path)]) == 0
    record = record_of(tmp_path)
    assert set(record["losses"]) == {"ce", "focal", "tfidf"}
    page = (tmp_path / "report.html").read_text()
    assert "logistic regression on words and characters; no encoder" in page


def test_comparison_fits_them_beside_the_losses(project):
    argv = ["compare", "mine.py", "--losses", "ce", "--seeds", "1", "--out", "both"]
    assert run([*argv, "--training.epochs", "2"]) == 0
    losses = record_of(project / "both")["losses"]
    assert {"ce", "majority", "tfidf", "wce"} <= set(losses)
    assert run_of_job(project / "both" / "tfidf" / "seed-0").result()["steps"] == 0
    result = json.loads((project / "both/tfidf/seed-0/result.json").read_text())
    assert result["test"]["f1"] == 1.0  # of six words with labels
    assert run([*argv, "--training.epochs", "2"]) == 0  # all used again


def run_of_job(folder):
    return run_of(dataclasses.replace(JOB, folder=str(folder)))


JOB = comparison.Job("tfidf", EXPERIMENT, "")


def test_controls_from_the_prior_keep_their_settings():
    mended = with_candidate(EXPERIMENT, FromPrior(CrossEntropy()))
    assert candidate_of(mended) == FromPrior(CrossEntropy())
    assert isinstance(EXPERIMENT, Experiment)
