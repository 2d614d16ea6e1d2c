"""Objectives against the losses they stand for, in NumPy."""

import dataclasses
import inspect
from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.metrics import f1_score

from dicejax import losses, objectives
from dicejax.objectives import (
    GHM,
    LDAM,
    CrossEntropy,
    Dice,
    Focal,
    LinearSchedule,
    LogitAdjusted,
    SelfAdjustingDice,
    SoftF1,
    StepSchedule,
    UnifiedFocal,
    WeightedCrossEntropy,
    WeightedSum,
    by_short_name,
)
from dicejax.objectives.objective import Scheme

from .losses import oracle_density
from .objectives_wanted import (
    COUNTS,
    LABELS,
    LOGITS,
    WANTED,
    mean,
    to_multi_label,
    yes_or_no_wanted,
)


def value(objective, **keywords):
    outputs, targets = {"tags": LOGITS, "other": LOGITS * 0}, {"tags": LABELS}
    objective = objective.bind_outputs(["tags"]).with_class_counts({"tags": COUNTS})
    return float(objective(outputs, targets, **keywords)[0])


@pytest.mark.parametrize(("objective", "wanted"), WANTED, ids=lambda one: str(one)[:60])
def test_value_against_numpy(objective, wanted):
    assert value(objective) == pytest.approx(float(wanted), rel=1e-5)


@pytest.mark.parametrize("classes", [1, 3])
def test_value_of_yes_or_no_against_numpy(classes):
    logits, labels, counts = to_multi_label(classes)
    for objective, wanted in yes_or_no_wanted(classes):
        fitted = objective.with_class_counts({"has": counts})
        got = float(fitted({"has": logits}, {"has": labels})[0])
        assert got == pytest.approx(float(wanted), rel=1e-5), objective


@pytest.mark.parametrize("classes", [1, 3])
@pytest.mark.parametrize("name", by_short_name())
def test_masked_entries_of_yes_or_no_change_nothing(name, classes):
    logits, labels, counts = to_multi_label(classes)
    objective = by_short_name()[name]().with_class_counts({"has": counts})

    @jax.jit
    def both(logits, labels):
        def loss(logits):
            return objective({"has": logits}, {"has": labels}, progress=0.5)[0]

        return jax.value_and_grad(loss)(logits)

    result, gradient = both(logits, labels)
    assert np.isfinite(gradient).all()
    assert not gradient[labels == -100].any()
    assert gradient[labels != -100].any(axis=0).all()
    again = both(np.where(labels == -100, np.nan, logits), labels)
    np.testing.assert_allclose(again[0], result, rtol=1e-6)
    np.testing.assert_allclose(again[1], gradient, rtol=1e-6)
    result, gradient = both(logits, np.full_like(labels, -100))
    assert float(result) == 0.0
    assert not gradient.any()


def test_every_objective_is_tested_but_the_schedules():
    for wanted in (WANTED, yes_or_no_wanted(3)):
        tested = {type(objective) for objective, _ in wanted}
        assert set(by_short_name().values()) - tested == {LinearSchedule, StepSchedule}


def test_every_loss_has_an_objective():
    # dice of a pointwise set, class weights and functions of counts are settings.
    of_losses = {
        name
        for name in losses.__all__
        if hasattr(getattr(losses, name), "jitted") and not name.endswith("counts")
    }
    named = {"cross_entropy": "ce", "majority_or_minority": "mom"}
    named |= {"self_adjusting_dice": "dsc", "lovasz_softmax": "lovasz"}
    assert {named.get(name, name) for name in of_losses} <= set(by_short_name())


@pytest.mark.parametrize(("objective", "wanted"), WANTED, ids=lambda one: str(one)[:60])
def test_gradients_are_finite_where_nothing_is_labelled(objective, wanted):
    del wanted
    objective = objective.with_class_counts({"tags": COUNTS})
    nothing = {"tags": jnp.full_like(LABELS, -100)}

    @jax.jit
    def both(logits):
        def loss(logits):
            return objective({"tags": logits}, nothing)[0]

        return jax.value_and_grad(loss)(logits)

    result, gradient = both(LOGITS)
    assert float(result) == 0.0
    assert not gradient.any()


@pytest.mark.parametrize("form", ["softmax", "sigmoid"])
@pytest.mark.parametrize("name", by_short_name())
def test_descending_it_learns_a_rare_class(name, form):
    # 8 of 200 tokens have label 1; a token's features tell its label, with noise.
    rng = np.random.default_rng(1)
    labels = (np.arange(200) < 8).astype(int)
    features = (rng.normal(size=(200, 3)) + 3 * labels[:, None]).astype(np.float32)
    counts = np.bincount(labels)
    targets, columns, rate = labels, 2, 0.2
    if form == "sigmoid":  # one logit moves half as far as the difference of two
        targets, counts, columns, rate = labels[:, None], counts[None], 1, 0.4
    objective = by_short_name()[name]().with_class_counts({"tags": counts})

    def loss(weights, state, progress):
        logits = features @ weights[:3] + weights[3]
        return objective({"tags": logits}, {"tags": targets}, state, progress)

    @jax.jit
    def descend(weights, state):
        def step(carry, progress):
            weights, state, momentum = carry
            slope = jax.grad(loss, has_aux=True)(weights, state, progress)[0]
            state = loss(weights, state, progress)[1]
            momentum = 0.9 * momentum + slope
            return (weights - rate * momentum, state, momentum), None

        start = (weights, state, jnp.zeros_like(weights))
        return jax.lax.scan(step, start, jnp.linspace(0, 1, 300))[0][0]

    weights = descend(jnp.zeros((4, columns)), objective.initial_state())
    logits = features @ weights[:3] + weights[3]
    predicted = logits[:, 0] > 0 if form == "sigmoid" else np.argmax(logits, axis=-1)
    assert f1_score(labels, predicted) > 0.8


def test_hyper_parameters_are_traced_and_choices_are_not():
    leaves, structure = jax.tree.flatten(SelfAdjustingDice(alpha=0.2, smooth=3.0))
    assert leaves == [0.2, 3.0]
    assert structure == jax.tree.structure(SelfAdjustingDice())
    assert structure != jax.tree.structure(SelfAdjustingDice(over="token"))
    assert jax.tree.leaves(WeightedSum()) == [0.0, 1.0, 1.0, 1.0]
    assert jax.tree.leaves(LDAM(class_counts=(3.0, 1.0))) == [0.5, 1.0, 3.0, 1.0]


def test_one_program_serves_a_sweep_of_alpha():
    alphas = np.array([0.0, 0.1, 1.0], np.float32)
    swept = jax.vmap(lambda a: SelfAdjustingDice(alpha=a).loss(LOGITS, LABELS))(alphas)
    single = [value(SelfAdjustingDice(alpha=float(a))) for a in alphas]
    np.testing.assert_allclose(swept, single, rtol=1e-5)


@pytest.mark.parametrize(
    ("progress", "share"), [(0.0, 0.0), (0.2, 0.0), (0.3, 0.25), (0.6, 1.0), (1.0, 1.0)]
)
def test_a_linear_schedule_mixes_the_losses(progress, share):
    early, late = value(CrossEntropy()), value(Dice())
    got = value(LinearSchedule(), progress=progress)
    assert got == pytest.approx((1 - share) * early + share * late, rel=1e-5)


def test_a_step_schedule_changes_at_once():
    schedule = StepSchedule(first=Dice(), then=CrossEntropy(), at=0.5)
    got = [value(schedule, progress=one) for one in (0.0, 0.49, 0.5, 1.0)]
    np.testing.assert_allclose(
        got, [value(Dice())] * 2 + [value(CrossEntropy())] * 2, rtol=1e-6
    )


def test_state_goes_from_call_to_call_through_sums_and_schedules():
    density = oracle_density.Density(np.zeros(10), 0)
    objective = WeightedSum(
        parts=(StepSchedule(first=GHM(), then=CrossEntropy(), at=0.9), Dice()),
        weights=(1.0, 0.0),
    )
    state = objective.initial_state()
    for scale in (1.0, 2.0, 0.1):
        values, density = oracle_density.ghm(scale * LOGITS, LABELS, density)
        got, state = objective(
            {"tags": scale * LOGITS}, {"tags": LABELS}, state, progress=0.1
        )
        assert float(got) == pytest.approx(float(mean(values)), rel=1e-5)
    assert float(jax.tree.leaves(state)[-1]) == 3.0


def test_counts_of_the_training_data_are_filled_in_once_at_least_1():
    fitted = LinearSchedule(
        first=LogitAdjusted(), then=LDAM(class_counts=(1.0, 2.0))
    ).with_class_counts({"tags": np.array([5, 0])})
    assert fitted.first.class_counts == (5.0, 1.0)
    assert fitted.then.class_counts == (1.0, 2.0)
    assert CrossEntropy().with_class_counts({}) == CrossEntropy()
    assert Focal().with_class_counts({}) == Focal()
    assert LDAM().with_class_counts({"has": np.array([[9, 1], [10, 0]])}) == LDAM(
        class_counts=(9.0, 1.0, 10.0, 1.0)
    )


def test_an_objective_without_its_counts_says_so():
    with pytest.raises(
        ValueError, match="class_counts is empty: call `with_class_counts`"
    ):
        LogitAdjusted()({"tags": LOGITS}, {"tags": LABELS})


def test_an_output_of_positions_has_no_counts():
    objective = WeightedCrossEntropy().bind_outputs(["start", "has"])
    message = (
        "objective wce needs class counts, which output 'start' has none of:"
        " its labels are positions"
    )
    with pytest.raises(ValueError, match=message):
        objective.with_class_counts({"has": np.array([[9, 1]])})
    with pytest.raises(ValueError, match="objective wce names no output"):
        WeightedCrossEntropy().with_class_counts({})


def test_counts_must_fit_the_classes():
    logits, labels, _ = to_multi_label(3)
    objective = LogitAdjusted(class_counts=(1.0, 2.0, 3.0))
    message = "class_counts has 3 numbers but 3 classes of yes or no want 6"
    with pytest.raises(ValueError, match=message):
        objective.loss(logits, labels)
    with pytest.raises(ValueError, match="class_counts has 3 numbers but 5 classes"):
        objective.loss(LOGITS, LABELS)


def test_a_choice_of_class_must_be_one_there_is():
    logits, labels, _ = to_multi_label(1)
    with pytest.raises(ValueError, match="background is 2 but there are 2 classes"):
        UnifiedFocal(background=2).loss(logits, labels)
    with pytest.raises(ValueError, match="exclude_class is 0 but there are 1 classes"):
        SoftF1(exclude_class=0).loss(logits, labels)


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
    logits, labels, _ = to_multi_label(3)
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


def test_a_sum_wants_a_weight_for_each_part():
    with pytest.raises(ValueError, match="weights has 1 numbers for 2 parts"):
        WeightedSum(weights=(1.0,))


def test_short_names_differ_and_documentation_names_every_field():
    classes = by_short_name().values()
    assert len({cls.short_name for cls in classes}) == len(classes) == 28
    assert {cls.__name__ for cls in classes} < set(objectives.__all__)
    for cls in classes:
        for field in dataclasses.fields(cls):
            assert f"\n  {field.name}: " in inspect.getdoc(cls), (cls, field.name)


@pytest.mark.parametrize("scheme", get_args(Scheme))
def test_every_scheme_of_weights_runs_in_a_compiled_step(scheme):
    logits, labels = jnp.zeros((4, 3)), jnp.array([0, 1, 2, 0])
    counts = {"tags": np.array([2, 1, 1])}
    one = WeightedCrossEntropy(scheme=scheme, output="tags").with_class_counts(counts)

    def loss(one):
        return one({"tags": logits}, {"tags": labels}, one.initial_state())[0]

    np.testing.assert_allclose(jax.jit(loss)(one), loss(one), rtol=1e-6)
