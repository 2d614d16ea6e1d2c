"""Objectives of tasks with several outputs: the output that each part reads."""

import pytest

from dicejax.objectives import GHM, CrossEntropy, Dice, StepSchedule, WeightedSum

from .test_objectives import LABELS, LOGITS, multi_label_batch


def test_reading_fills_in_the_outputs_that_are_not_named():
    one, two = ["tags"], ["start", "end"]
    assert Dice(smooth=2.0).bind_outputs(one) == Dice(output="tags", smooth=2.0)
    assert Dice(output="end").bind_outputs(two, {"end": 3.0}) == Dice(output="end")
    both = Dice().bind_outputs(two, {"end": 3.0})
    assert both == WeightedSum(
        parts=(Dice(output="start"), Dice(output="end")), weights=(1.0, 3.0)
    )
    assert Dice().bind_outputs(one, {"tags": 0.5}) == WeightedSum(
        parts=(Dice(output="tags"),), weights=(0.5,)
    )
    assert both.bind_outputs(two, {"end": 3.0}) == both


def test_reading_goes_into_sums_and_schedules():
    outputs, weights = ["start", "end"], {"start": 2.0}
    parts = (GHM(), Dice(output="end"))
    read = WeightedSum(parts=parts, weights=(1.0, 4.0)).bind_outputs(outputs, weights)
    assert read.parts == (GHM().bind_outputs(outputs, weights), parts[1])
    assert read.weights == (1.0, 4.0)
    schedule = StepSchedule(first=Dice(output="end"), then=CrossEntropy())
    read = schedule.bind_outputs(outputs, weights)
    assert read.first == Dice(output="end")
    assert read.then == CrossEntropy().bind_outputs(outputs, weights)


def test_the_sum_over_outputs_is_that_of_its_copies_each_with_its_state():
    logits, labels, _ = multi_label_batch(3)
    outputs, targets = {"tags": LOGITS, "has": logits}, {"tags": LABELS, "has": labels}
    objective = GHM().bind_outputs(["tags", "has"], {"has": 0.25})
    state, states = objective.initial_state(), {}
    for scale in (1.0, 2.0):
        scaled = {name: scale * one for name, one in outputs.items()}
        total, state = objective(scaled, targets, state)
        got = {
            name: GHM(output=name)(scaled, targets, states.get(name, ()))
            for name in outputs
        }
        states = {name: one[1] for name, one in got.items()}
        alone = got["tags"][0] + 0.25 * got["has"][0]
        assert float(total) == pytest.approx(float(alone), rel=1e-6)


def test_reading_an_output_that_is_not_there_says_what_is():
    message = (
        "output 'stat' is none of the task's: 'start', 'end'; did you mean 'start'"
    )
    with pytest.raises(ValueError, match=message):
        WeightedSum(parts=(Dice(output="stat"),), weights=(1.0,)).bind_outputs(
            ["start", "end"]
        )
    with pytest.raises(ValueError, match=message):
        Dice().bind_outputs(["start", "end"], {"stat": 2.0})
    with pytest.raises(ValueError, match="objective dice has no output to read"):
        Dice().bind_outputs([])


def test_one_of_several_outputs_must_be_named():
    outputs = {"start": LOGITS, "end": LOGITS}
    message = r"objective ce names no output and there are 2 \(start, end\): call `bind"
    with pytest.raises(ValueError, match=message):
        CrossEntropy()(outputs, outputs)
