"""The search space of tuning: declared ranges, and that every value trains."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dicejax import config, objectives
from dicejax.data.sources import SyntheticNER
from dicejax.losses.declaration import NON_NEGATIVE
from dicejax.objectives import (
    GHM,
    CrossEntropy,
    Dice,
    Focal,
    LinearSchedule,
    SelfAdjustingDice,
    Tversky,
    WeightedCrossEntropy,
    WeightedSum,
)
from dicejax.optimizers import AdamW
from dicejax.study.compare import spaces


def experiment(objective, **optimizer):
    return config.Experiment(
        name="some",
        data=SyntheticNER(),
        objective=objective,
        optimizer=AdamW(learning_rate=1e-3, **optimizer),
    )


def paths(objective):
    rate, *others = spaces.ranges_of(experiment(objective))
    assert rate == "optimizer.learning_rate"
    return [path.removeprefix("objective.") for path in others]


def kinds(*chosen):
    """The objectives with ranges; all but representatives behind --exhaustive."""
    return [
        pytest.param(cls, id=n, marks=[] if n in chosen else [pytest.mark.exhaustive])
        for n, cls in objectives.by_short_name().items()
        if spaces.declared_ranges(cls)
    ]


@pytest.mark.parametrize("kind", objectives.by_short_name().values())
def test_ranges_are_of_numbers_and_hold_the_defaults(kind):
    default, fields = kind(), {field.name for field in dataclasses.fields(kind)}
    for name, one in spaces.declared_ranges(kind).items():
        assert one.low < one.high and one.why
        for beside in (one.rest, one.only and one.only[0]):
            assert beside is None or beside in fields
        if one.scale == "log":
            assert one.low > 0
        value = getattr(default, name)
        for number in value if isinstance(value, tuple) else (value,):
            assert type(number) is (int if one.whole else float)
            assert one.low <= number <= one.high
            assert one.to_value(one.to_drawn(number)) == pytest.approx(number, rel=5e-3)
            low, high = one.drawn
            assert low <= one.to_drawn(number) <= high


@pytest.mark.parametrize("kind", kinds("focal", "ghm", "tversky", "sum"))
@pytest.mark.parametrize("end", [0, 1])
def test_a_loss_can_be_minimised_at_both_ends_of_its_ranges(kind, end):
    whole = experiment(kind())
    ranges = spaces.ranges_of(whole)
    drawn = {path: one.drawn[end] for path, one in ranges.items()}
    values = spaces.drawn_values(whole, drawn)
    for path, one in ranges.items():
        assert min(abs(values[path] - one.low), abs(values[path] - one.high)) < 1e-9
    loss = spaces.with_values(whole, values).objective
    rng = np.random.default_rng(0)
    labels = rng.choice(4, size=(4, 16), p=[0.7, 0.15, 0.1, 0.05])
    logits = rng.normal(size=(4, 16, 4)).astype(np.float32)
    loss = loss.with_class_counts({"tags": np.bincount(labels.ravel(), minlength=4)})
    loss = loss.bind_outputs(["tags"])
    targets, state = {"tags": jnp.asarray(labels)}, loss.initial_state()

    def value(logits):
        return loss({"tags": logits}, targets, state, 0.45)[0]

    found, slope = jax.value_and_grad(value)(jnp.asarray(logits))
    assert math.isfinite(found) and np.isfinite(slope).all() and np.abs(slope).max() > 0


def test_what_is_part_of_the_name_is_kept():
    assert paths(SelfAdjustingDice()) == ["alpha", "smooth"]
    assert paths(SelfAdjustingDice(alpha=1.0)) == ["smooth"]
    assert paths(SelfAdjustingDice(alpha=1.0, smooth=0.1)) == []
    assert paths(CrossEntropy(label_smoothing=0.1)) == []
    # alpha and beta are one choice.
    assert paths(Tversky(beta=0.7)) == paths(Tversky(alpha=0.3)) == ["smooth"]


def test_what_has_no_meaning_with_the_other_settings_is_kept():
    assert paths(Focal()) == ["gamma"]
    assert paths(Focal(scheme="log_ratio")) == ["gamma", "k"]
    assert paths(WeightedCrossEntropy()) == ["k"]
    assert paths(WeightedCrossEntropy(scheme="effective_number")) == ["beta"]
    assert paths(WeightedCrossEntropy(scheme="inverse")) == []


def test_losses_made_of_others_vary_those_too():
    assert paths(WeightedSum()) == ["weights.1", "parts.1.smooth"]
    assert paths(WeightedSum(parts=(GHM(), Dice(smooth=0.5)), weights=(1.0, 1.0))) == [
        "weights.1",
        "parts.0.bins",
        "parts.0.momentum",
    ]
    assert paths(WeightedSum(weights=(1.0, 0.5))) == ["parts.1.smooth"]
    assert paths(LinearSchedule(first=Focal(), end=0.9)) == [
        "begin",
        "first.gamma",
        "then.smooth",
    ]


def test_a_loss_of_ones_own_varies_what_it_declares():
    @objectives.loss("own", kind="pointwise", gamma=NON_NEGATIVE.tuned(0.5, 5, why="!"))
    def own(logits, labels, *, gamma=2.0, more=1.0):
        return logits[..., 0] ** gamma * more

    @objectives.objective
    class Derived(Dice):
        more: float = 1.0

    assert paths(own.objective()) == ["gamma"]
    assert paths(own.objective(gamma=1.0)) == []
    assert paths(Derived()) == ["smooth"]


def test_values_become_those_of_an_experiment():
    given = experiment(Tversky(), head_learning_rate=5e-3)
    assert spaces.given_values(given) == {
        "optimizer.learning_rate": 1e-3,
        "optimizer.head_learning_rate": 5e-3,
        "objective.alpha": 0.5,
        "objective.beta": 0.5,
        "objective.smooth": 1.0,
    }
    drawn = {
        "optimizer.learning_rate": 4.00012e-4,
        "objective.alpha": 0.11111,
        "objective.smooth": 0.02,
    }
    values = spaces.drawn_values(given, drawn)
    changed = spaces.with_values(given, values)
    assert changed.optimizer.learning_rate == 4e-4
    assert changed.optimizer.head_learning_rate == 2e-3  # still five times as high
    assert changed.objective == Tversky(alpha=0.111, beta=0.889, smooth=0.02)
    assert spaces.with_values(changed, spaces.given_values(given)) == given


def test_integers_stay_integers():
    given = experiment(GHM())
    drawn = {
        "optimizer.learning_rate": 1e-3,
        "objective.bins": 17,
        "objective.momentum": 0.5,
    }
    changed = spaces.with_values(given, spaces.drawn_values(given, drawn))
    assert changed.objective == GHM(bins=17, momentum=0.5)
    assert type(changed.objective.bins) is int
