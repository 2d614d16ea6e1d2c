"""Baselines move decisions by their formulas, and are chosen on dev."""

import json
from unittest import mock

import numpy as np
import pytest
from etils import epath

from dicejax.cli import run
from dicejax.errors import InputError
from dicejax.objectives import CrossEntropy, Dice, Focal, WeightedCrossEntropy
from dicejax.study import compare as comparison
from dicejax.study.compare import baselines
from dicejax.tasks import QuestionAnswering, Tagging, Target
from dicejax.training import inference
from dicejax.training.checkpoint import restore_params
from dicejax.training.run_folder import CHECKPOINTS, Run
from dicejax.training.setup import prepare

from ..small_project import write_project
from .made_runs import EXPERIMENT, made, record_of


def test_adjusted_logits_are_those_of_the_formula():
    targets = {
        "tags": Target("classes", ("O", "B", "I")),
        "match": Target("multi_label", ("match",)),
        "start": Target("positions"),
    }
    counts = {"tags": np.array([80, 20, 0]), "match": np.array([[900, 100]])}
    shifts = baselines.logit_adjustments(targets, counts)
    assert set(shifts) == set(baselines.STRENGTHS)
    shares = np.array([80, 20, 0.5]) / 100.5
    for tau, shift in shifts.items():
        assert set(shift) == {"tags", "match"}
        np.testing.assert_allclose(shift["tags"], -tau * np.log(shares), rtol=1e-6)
        np.testing.assert_allclose(shift["match"], -tau * np.log(1 / 9), rtol=1e-6)
    assert baselines.logit_adjustments({"start": Target("positions")}, {}) == {}


def test_a_threshold_moves_the_negative_class_alone():
    with_negative = {"tags": Target("classes", ("O", "B"), has_negative=True)}
    used = {"tags": np.array([5, 5])}
    for offset, shift in baselines.threshold_shifts(with_negative, used).items():
        np.testing.assert_allclose(shift["tags"], [offset, 0])
    assert baselines.threshold_shifts(with_negative, {"tags": np.array([0, 5])}) == {}
    without = {"stars": Target("classes", ("1", "2", "3"))}
    assert baselines.threshold_shifts(without, {"stars": np.array([1, 2, 3])}) == {}


def test_cross_entropy_and_its_weighted_form_take_part():
    both = (CrossEntropy(), Focal())
    weighted = (*both, WeightedCrossEntropy())
    assert comparison.with_baselines([Focal()], Tagging()) == weighted
    assert comparison.with_baselines([Focal()]) == both
    custom = (WeightedCrossEntropy(scheme="inverse"), CrossEntropy())
    assert comparison.with_baselines(custom, Tagging()) == custom
    positions = QuestionAnswering(form="positions")
    assert comparison.with_baselines([Focal()], positions) == both


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """Return the folder of a short comparison, and the words that it was called by."""
    folder = write_project(tmp_path_factory.mktemp("compared"))
    words = ["compare", str(folder / "mine.py"), "--out", str(folder / "kept")]
    words += ["--losses", "focal", "--seeds", "1", "--training.epochs", "3"]
    assert run(words) == 0
    return folder / "kept", words


@pytest.mark.slow
def test_a_short_comparison_trains_a_head_from_the_prior_too(compared):
    out, _ = compared
    logs = [(out / x / "seed-0/metrics.jsonl").read_text() for x in ("ce+prior", "ce")]
    first = [json.loads(log.splitlines()[0])["loss"] for log in logs]
    assert first[0] < first[1]
    moved = Run.open(str(out / "ce+prior/seed-0")).baselines()
    assert moved.keys() == {"logit adjustment", "tuned threshold"}
    assert record_of(out)["losses"]["ce+prior"]["is_control"] is True


@pytest.mark.slow
def test_baselines_are_chosen_on_dev_and_scored_on_test(compared):
    out, words = compared
    experiment = Run(epath.Path(out) / "ce" / "seed-0").experiment()
    setup = prepare(experiment, lambda text: None, weights=False)
    mesh = experiment.mesh.make()
    task, data = experiment.task, setup.data

    def score(params, split, shift):
        decoded = setup.decode(params, split, mesh, shifts=[shift])
        return setup.score(decoded.candidates[0], split).values

    targets = task.targets(data.labels)
    counts = task.class_counts(data.items["train"], data.labels)
    shifts = {
        baselines.ADJUSTED: baselines.logit_adjustments(targets, counts),
        baselines.THRESHOLD: baselines.threshold_shifts(targets, counts),
    }
    for loss in ("focal", "ce"):
        run_0 = Run(epath.Path(out) / loss / "seed-0")
        assert set(run_0.baselines()) == {baselines.ADJUSTED, baselines.THRESHOLD}
        places = run_0.path / CHECKPOINTS, setup.network, "best", mesh
        _, params = restore_params(*places)
        for name, control in run_0.baselines().items():
            on_dev = [score(params, "dev", shift) for shift in shifts[name].values()]
            best = max(scores["f1"] for scores in on_dev)
            assert control["dev_score"] == best
            chosen = shifts[name][control["value"]]
            assert score(params, "dev", chosen)["f1"] == best
            test = score(params, "test", chosen)
            assert {key: control["test"][key] for key in test} == dict(test)
            numerator, denominator = control["example_statistics"].sum(axis=(0, 1))
            assert numerator / max(denominator, 1) == pytest.approx(test["f1"])
    content = (out / "comparison.json").read_text()
    for loss in ("focal", "wce", "ce + logit adjustment", "ce + tuned threshold"):
        assert f'"{loss}"' in content
    # Scores counted for the curves: each class's gold elements once.
    (counted,) = run_0.score_counts().values()
    gold = task.class_counts(data.items["test"], data.labels)["tags"]
    np.testing.assert_array_equal(counted[:, 1].sum(axis=-1), gold)
    # `predict` moves decisions as they were.
    controls = run_0.baselines()
    for name, control in controls.items():
        np.testing.assert_array_equal(
            control["shift"]["tags"], shifts[name][control["value"]]["tags"]
        )
    texts = [" ".join(each.words) for each in data.corpus.test]
    for offset, expected in ((1e4, [0] * len(texts)), (-1e4, None)):
        shift = (np.eye(len(targets["tags"].classes))[0] * offset).tolist()
        moved = controls[baselines.THRESHOLD] | {"shift": {"tags": shift}}
        run_0.write_baselines({baselines.THRESHOLD: moved})
        records = inference.predict(run_0.path, texts, decisions=baselines.THRESHOLD)
        spans = [[x["end"] - x["start"] for x in y["entities"]] for y in records]
        assert [*map(sum, spans)] == (expected or [len(x.split()) for x in texts])
    refusals = {
        "there are tuned threshold": {"decisions": baselines.ADJUSTED},
        "for the best checkpoint": {
            "decisions": "tuned threshold",
            "checkpoint": "last",
        },
    }
    for message, options in refusals.items():
        with pytest.raises(InputError, match=message):
            inference.predict(run_0.path, texts, **options)
    del moved["shift"]
    run_0.write_baselines({baselines.THRESHOLD: moved})
    with pytest.raises(InputError, match="an earlier version has moved its decisions"):
        inference.predict(run_0.path, texts, decisions=baselines.THRESHOLD)
    run_0.write_baselines(controls)
    # The weights that are kept suffice for evaluation.
    assert run(["evaluate", str(run_0.path)]) == 0
    before = (run_0.path / "baselines.json").read_text()
    assert run(words) == 0
    assert (run_0.path / "baselines.json").read_text() == before


def test_weights_that_are_gone_are_missed_of_cross_entropy_alone(tmp_path):
    lines = []
    ce, dice = made(tmp_path, [Dice()], 1)
    with mock.patch.object(baselines, "prepare"):
        baselines.score_baselines([dice], lines.append)
        (line,) = lines
        assert line.startswith("dice seed 0: decisions are not moved: ")
        assert line.endswith("checkpoints: missing; the run holds no checkpoint")
        with pytest.raises(InputError, match="the run holds no checkpoint"):
            baselines.score_baselines([ce], lines.append)


def test_runs_that_are_not_finished_have_no_baselines(tmp_path):
    lines = []
    jobs = comparison.jobs_of(EXPERIMENT, [Focal()], 1, str(tmp_path))
    baselines.score_baselines(jobs, lines.append)
    assert not lines
