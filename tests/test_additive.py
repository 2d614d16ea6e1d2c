"""Objectives that are sums over micro-batches, and those that are not."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dicejax.losses.declaration import REGISTRY
from dicejax.objectives import (
    GHM,
    LDAM,
    ZLPR,
    CrossEntropy,
    Dice,
    DistributionBalanced,
    Focal,
    HardNegatives,
    LinearSchedule,
    Mined,
    Objective,
    SelfAdjustingDice,
    SoftF1,
    StepSchedule,
    UnifiedFocal,
    WeightedSum,
    by_short_name,
    loss,
    objective,
)

from .losses.binding import bound

ROWS, TOKENS, CLASSES = 8, 6, 4
PLAIN = {name: cls() for name, cls in by_short_name().items()}
ADDING = {
    "ce, smoothed": CrossEntropy(label_smoothing=0.2),
    "zlpr": ZLPR(),
    "ldam": LDAM(),
    "distribution_balanced": DistributionBalanced(),
    "dsc of elements": SelfAdjustingDice(over="element", smooth=0.0),
    "some classes of elements": Dice(over="element", exclude_class="0,2"),
    "dice of rows": Dice(over="sequence", average="micro"),
    "soft_f1 of rows": SoftF1(over=1, exclude_class="negatives"),
    "sum": WeightedSum(parts=(CrossEntropy(), ZLPR()), weights=(0.5, 2.0)),
    "linear": LinearSchedule(then=Focal(scheme="log_ratio")),
}
CE_AND_FOCAL = {"first": CrossEntropy(output="start"), "then": Focal(output="end")}
# Each part counts the labels of the output that it reads.
OF_TWO_OUTPUTS = {
    "sum": WeightedSum(parts=tuple(CE_AND_FOCAL.values()), weights=(0.3, 2.0)),
    "linear": LinearSchedule(**CE_AND_FOCAL, begin=0.1, end=0.9),
    "step": StepSchedule(**CE_AND_FOCAL),
    "nested": bound(
        WeightedSum(parts=(ZLPR(), LinearSchedule(**CE_AND_FOCAL)), weights=(0.3, 2.0)),
        {},
        {"start": 1.0, "end": 0.1},
    ),
}
OTHERS = {
    "dice": Dice(),
    "dsc": SelfAdjustingDice(),
    "unified_focal": UnifiedFocal(),
    "dice of three rows": Dice(over=3),
    "hard_negatives": HardNegatives(),
    "ghm without memory": GHM(momentum=0.0),
    "sum": WeightedSum(),
}


FORMS = ("softmax", "sigmoid")
# "published" means one element a set where there are more than two classes: a mean
# there, although `is_additive`, which does not see the outputs, is False.
MEANS_OF_A_SOFTMAX = ("dsc-official",)


def over(chosen, additive, fast=FORMS):
    """Parametrize over objectives and forms of labels.

    By default each of the chosen takes the next of the fast forms, in turn; the other
    forms, and every other loss, are behind --exhaustive.
    """
    turns = itertools.cycle(fast)
    cases = [(name, objective, next(turns)) for name, objective in chosen.items()]
    cases += [
        (f"{name}, plain", objective, None)
        for name, objective in PLAIN.items()
        if objective.is_additive == additive
    ]
    params = [
        pytest.param(
            objective,
            form,
            id=f"{name}-{form}",
            marks=[pytest.mark.exhaustive] * (form != turn),
        )
        for name, objective, turn in cases
        for form in FORMS
        if form != "softmax" or name.partition(",")[0] not in MEANS_OF_A_SOFTMAX
    ]
    if additive:
        params += [
            pytest.param(objective, "two outputs", id=f"{name}-two outputs")
            for name, objective in OF_TWO_OUTPUTS.items()
        ]
    return pytest.mark.parametrize(("objective", "form"), params)


def batch(form, dtype=np.float64, seed=0):
    """Return logits, unevenly masked labels and counts; rows 2 and 3 have none."""
    rng = np.random.default_rng(seed)
    logits = 2 * rng.normal(size=(ROWS, TOKENS, CLASSES)).astype(dtype)
    logits[2:4] = np.nan
    is_masked = rng.random((ROWS, TOKENS)) < np.linspace(0.1, 0.8, ROWS)[:, None]
    is_masked[2:4] = True
    if form == "softmax":
        counts = np.array([80, 10, 6, 4])
        labels = rng.choice(CLASSES, (ROWS, TOKENS), p=(0.8, 0.1, 0.06, 0.04))
        return logits, np.where(is_masked, -100, labels), {"tags": counts}
    labels = (rng.random(logits.shape) < 0.3).astype(int)
    masked = is_masked[..., None] | (rng.random(logits.shape) < 0.2)
    counts = np.array([[60, 40], [90, 10], [70, 30], [95, 5]])
    return logits, np.where(masked, -100, labels), {"tags": counts}


def outputs_and_targets(form, dtype=np.float64):
    """Return outputs, targets and counts of a task with one output, or with two."""
    if form != "two outputs":
        logits, labels, counts = batch(form, dtype)
        return {"tags": logits}, {"tags": labels}, counts
    start, starts, _ = batch("softmax", dtype)
    end, ends, _ = batch("sigmoid", dtype, 1)
    ends[:2] = -100  # and rows 2 and 3
    return {"start": start, "end": end}, {"start": starts, "end": ends}, {}


def split(arrays, number):
    """Split into micro-batches along a new first axis."""
    return jax.tree.map(lambda x: jnp.reshape(x, (number, -1, *x.shape[1:])), arrays)


@jax.jit
@functools.partial(jax.value_and_grad, argnums=1)
def at_once(objective, outputs, targets, progress):
    return objective(outputs, targets, progress=progress)[0]


@functools.partial(jax.jit, static_argnames="number")
def added(objective, outputs, targets, progress, number):
    """Return accumulated loss and gradients of micro-batches."""
    micro_batches = split(outputs, number), split(targets, number)
    counts = jax.lax.map(objective.elements, micro_batches[1])
    whole = jax.tree.map(lambda each: each.sum(0), counts)

    @jax.value_and_grad
    def contribution(outputs, targets):
        return objective.contribution(outputs, targets, whole, progress)

    values, gradients = jax.lax.map(lambda pair: contribution(*pair), micro_batches)
    return values.sum(), jax.tree.map(
        lambda x, y: y.reshape(x.shape), outputs, gradients
    )


def test_pointwise_losses_are_additive_and_others_say_that_they_are_not():
    for name, declared in REGISTRY.items():
        assert PLAIN[name].is_additive == (declared.kind == "pointwise")
    assert all(objective.is_additive for objective in ADDING.values())
    outputs, targets, _ = outputs_and_targets("softmax", np.float32)
    message = "^objective [a-z_]+ is not additive: the loss of a batch is not a sum"
    others = (LinearSchedule(), StepSchedule(first=Dice()), Mined())
    for whole in (*OTHERS.values(), *others):
        assert not whole.is_additive
        for attempt in (
            lambda whole: whole.elements(targets),
            lambda whole: whole.contribution(outputs, targets, 2 * (jnp.ones(2),)),
        ):
            with pytest.raises(TypeError, match=message):
                attempt(whole)


@over(ADDING, additive=True)
def test_micro_batches_add_up_to_the_batch(objective, form, request):
    ways = [(np.float64, 1e-12, (4,))]
    if request.config.getoption("exhaustive"):
        ways = [(np.float64, 1e-12, (2, 4)), (np.float32, 1e-6, (4,))]
    for dtype, tolerance, numbers in ways:
        with jax.enable_x64(dtype == np.float64):
            outputs, targets, counts = outputs_and_targets(form, dtype)
            fitted = bound(objective, counts, dict.fromkeys(outputs, 1.0))
            value, gradient = at_once(fitted, outputs, targets, 0.5)
            assert value.dtype == dtype
            for number in numbers:
                total, summed = added(fitted, outputs, targets, 0.5, number)
                np.testing.assert_allclose(total, value, rtol=tolerance)
                for name, expected in gradient.items():
                    atol = tolerance * np.abs(expected).max()
                    assert summed[name].dtype == expected.dtype == dtype
                    np.testing.assert_allclose(summed[name], expected, 0, atol)


@over(OTHERS, additive=False, fast=("softmax",))
def test_no_counts_make_a_mean_of_the_others(objective, form):
    outputs, targets, counts = outputs_and_targets(form)
    fitted, seen = bound(objective, counts), targets["tags"] != -100
    tokens = seen if form == "softmax" else seen.any(-1)
    whole, gradient = at_once(fitted, outputs, targets, 0.5)
    halves = split((outputs, targets), 2)
    values, slopes = zip(
        *(
            at_once(fitted, *jax.tree.map(lambda x, half=half: x[half], halves), 0.5)
            for half in range(2)
        ),
        strict=True,
    )
    slopes = np.stack([slope["tags"] for slope in slopes])
    for each in (seen, tokens, np.ones(ROWS)):  # by labels, by tokens, alike
        shares = split(each, 2).reshape(2, -1).sum(-1) / each.sum()
        assert abs(shares @ np.array(values) - whole) > 1e-4
        mean = (shares[:, None, None, None] * slopes).reshape(gradient["tags"].shape)
        off = np.abs(mean - gradient["tags"]).max()
        assert off > 1e-2 * np.abs(gradient["tags"]).max()


def test_a_loss_of_ones_own_is_additive_if_it_is_pointwise():
    @loss(kind="pointwise")
    def own_margin(logits, labels):
        return jax.nn.relu(1 - logits[..., 0])  # not masked: the objective does it

    @objective
    class Whole(Objective):
        def loss(self, logits, labels):
            return own_margin.objective().loss(logits, labels)

    outputs, targets, _ = outputs_and_targets("softmax", np.float32)
    margin = own_margin.objective()
    assert margin.is_additive
    value = at_once(margin, outputs, targets, 0.0)[0]
    each = np.maximum(1 - outputs["tags"][..., 0], 0)
    np.testing.assert_allclose(value, each[targets["tags"] != -100].mean(), rtol=1e-6)
    total = added(margin, outputs, targets, 0.0, 4)[0]
    np.testing.assert_allclose(total, value, rtol=1e-6)
    assert not Whole().is_additive
    with pytest.raises(TypeError, match="objective Whole is not additive"):
        Whole().elements(targets)
