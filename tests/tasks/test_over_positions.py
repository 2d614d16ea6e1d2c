"""One comparison of a softmax over positions with losses of each piece."""

import dataclasses
import json

import jax
import numpy as np
import pytest

from dicejax import config
from dicejax.errors import InputError
from dicejax.mesh import MeshShape
from dicejax.objectives import CrossEntropy, Dice, PositionCrossEntropy, WeightedSum
from dicejax.study.compare import compare, compare_runs
from dicejax.tasks import QuestionAnswering
from dicejax.training.setup import prepare

from ..shrinking import ROOT, shrunk

OVER = PositionCrossEntropy()


@pytest.fixture(scope="module")
def experiment(tmp_path_factory):
    """Return that of SQuAD, made small; its answers are of each piece."""
    folder = tmp_path_factory.mktemp("squad")
    return shrunk(config.load(ROOT / "qa/squad1.py"), folder)


def with_loss(experiment, loss):
    return dataclasses.replace(experiment, objective=loss)


def test_the_form_goes_with_the_loss_and_back(experiment):
    plain = with_loss(experiment, CrossEntropy())
    over = with_loss(plain, OVER)
    assert (plain.task.form, over.task.form) == ("sigmoid", "softmax")
    assert with_loss(over, Dice()) == with_loss(plain, Dice())
    assert with_loss(plain, WeightedSum(parts=(OVER, OVER))).task == over.task
    assert config.from_json(config.to_json(over)) == over
    positions = QuestionAnswering()
    assert {positions.over_positions(over) for over in (True, False)} == {positions}


@pytest.mark.parametrize(
    "settings",
    [
        {"several_spans": True, "tune_threshold": True},
        {"unanswerable": True, "tune_threshold": True},
    ],
)
def test_a_tuned_threshold_is_no_hindrance(settings):
    task = QuestionAnswering(form="sigmoid", **settings)
    over = task.over_positions(True)
    assert (over.threshold_rule is not None) == task.unanswerable
    assert over.over_positions(False) == task


def test_network_batches_and_test_set_are_the_same_and_the_loss_is_a_softmax(
    experiment,
):
    plain, over = (
        prepare(with_loss(experiment, loss), warn=lambda text: None)
        for loss in (CrossEntropy(), OVER)
    )
    mesh = MeshShape().make(jax.devices()[:1])
    params = over.initial_state(mesh, 1).params
    assert jax.tree.map(
        np.array_equal, params, plain.initial_state(mesh, 1).params
    ) == jax.tree.map(lambda x: True, params)
    batches = [setup.batches(mesh)[0].arrays for setup in (plain, over)]
    for name in ("input_ids", "segment_ids"):
        np.testing.assert_array_equal(batches[0][name], batches[1][name])
    assert plain.data.identity.checksums == over.data.identity.checksums

    outputs = plain.network.apply(params, batches[0])
    task, batch = over.experiment.task, batches[1]
    of_positions = over.network.apply(params, batch)
    got = over.objective(*task.loss_inputs(of_positions, batch))[0]
    tokens = task.reduce_logits(of_positions, batch).tokens
    expected = []
    for name in ("start", "end"):
        logits, segments = np.float64(outputs[name]), np.asarray(batch["segment_ids"])
        losses = []
        for row, segment in np.ndindex(np.shape(batch[name])):
            gold = int(batch[name][row, segment])
            segment_mask = segments[row] == segment + 1
            if gold >= 0:
                assert segment_mask[gold]
                z = logits[row, segment_mask]
                losses.append(np.log(np.exp(z).sum()) - logits[row, gold])
                assert tokens[name][row, gold] == pytest.approx(-losses[-1], rel=1e-4)
        expected.append(np.mean(losses))
    assert float(got) == pytest.approx(np.mean(expected), rel=1e-5)


def test_other_tasks_refuse_it(tmp_path):
    tagging = shrunk(config.load(ROOT / "ner/conll03.py"), tmp_path)
    with pytest.raises(InputError, match=r"position_ce: reads positions, but .*'tags'"):
        prepare(with_loss(tagging, OVER), warn=lambda text: None)


@pytest.mark.slow
@pytest.mark.exhaustive
def test_both_are_in_one_table(experiment, tmp_path):
    short = dataclasses.replace(
        experiment, training=dataclasses.replace(experiment.training, epochs=1)
    )
    folder = str(tmp_path / "both")
    comparison = compare(short, (OVER,), seeds=1, baselines=False, out=folder)
    assert [row.loss for row in comparison.rows] == ["ce", "position_ce"]
    forms = [
        json.loads((tmp_path / "both" / loss / "seed-0/experiment.json").read_text())
        for loss in ("ce", "position_ce")
    ]
    assert [short["task"]["form"] for short in forms] == ["sigmoid", "softmax"]
    again = compare_runs([folder], out=str(tmp_path / "again"), baseline="position_ce")
    assert {row.loss for row in again.rows} == {"ce", "position_ce"}
