"""The search space of tuning: declared ranges, and that every value trains."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dicejax import config, objectives
from dicejax.data.synthetic import SyntheticNER
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

from ..losses.binding import bound


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
    for name, r in spaces.declared_ranges(kind).items():
        assert r.low < r.high and r.why and (r.scale != "log" or r.low > 0)
        assert {r.rest, r.only and r.only[0]} <= {None, *fields}
        value = getattr(default, name)
        for number in value if isinstance(value, tuple) else (value,):
            assert type(number) is (int if r.whole else float)
            assert r.low <= number <= r.high
            assert r.to_value(r.to_drawn(number)) == pytest.approx(number, rel=5e-3)
            low, high = r.drawn
            assert low <= r.to_drawn(number) <= high


@pytest.mark.parametrize("kind", kinds("focal", "ghm", "tversky", "sum"))
@pytest.mark.parametrize("end", [0, 1])
def test_a_loss_can_be_minimised_at_both_ends_of_its_ranges(kind, end):
    whole = experiment(kind())
    ranges = spaces.ranges_of(whole)
    drawn = {path: r.drawn[end] for path, r in ranges.items()}
    values = spaces.drawn_values(whole, drawn)
    for path, r in ranges.items():
        assert min(abs(values[path] - r.low), abs(values[path] - r.high)) < 1e-9
    loss = spaces.with_values(whole, values).objective
    rng = np.random.default_rng(0)
    labels = rng.choice(4, size=(4, 16), p=[0.7, 0.15, 0.1, 0.05])
    logits = rng.normal(size=(4, 16, 4)).astype(np.float32)
    loss = bound(loss, {"tags": np.bincount(labels.ravel(), minlength=4)})
    targets, state = {"tags": jnp.asarray(labels)}, loss.initial_state()

    def value(logits):
        return loss({"tags": logits}, targets, state, 0.45)[0]

    mean, slope = jax.value_and_grad(value)(jnp.asarray(logits))
    assert math.isfinite(mean) and np.isfinite(slope).all() and np.abs(slope).max() > 0


TWO = WeightedSum(parts=(GHM(), Dice(smooth=0.5)), weights=(1.0, 1.0))
SCHEDULE = LinearSchedule(first=Focal(), end=0.9)


@pytest.mark.parametrize(
    ("loss", "free"),
    [
        # What is part of the name is fixed; alpha and beta of Tversky are one choice.
        (SelfAdjustingDice(), ["alpha", "smooth"]),
        (SelfAdjustingDice(alpha=1.0), ["smooth"]),
        (SelfAdjustingDice(alpha=1.0, smooth=0.1), []),
        (CrossEntropy(label_smoothing=0.1), []),
        (Tversky(beta=0.7), ["smooth"]),
        (Tversky(alpha=0.3), ["smooth"]),
        # So is what has no meaning with the other settings.
        (Focal(), ["gamma"]),
        (Focal(scheme="log_ratio"), ["gamma", "k"]),
        (WeightedCrossEntropy(), ["k"]),
        (WeightedCrossEntropy(scheme="effective_number"), ["beta"]),
        (WeightedCrossEntropy(scheme="inverse"), []),
        # Losses made of others vary those too.
        (WeightedSum(), ["weights.1", "parts.1.smooth"]),
        (TWO, ["weights.1", "parts.0.bins", "parts.0.momentum"]),
        (WeightedSum(weights=(1.0, 0.5)), ["parts.1.smooth"]),
        (SCHEDULE, ["begin", "first.gamma", "then.smooth"]),
    ],
    ids=str,
)
def test_settings_at_their_defaults_vary(loss, free):
    assert paths(loss) == free


def test_values_become_those_of_an_experiment():
    untuned = experiment(Tversky(), head_learning_rate=5.0)
    rate, alpha, smooth = (
        "optimizer.learning_rate",
        "objective.alpha",
        "objective.smooth",
    )
    values = {rate: 1e-3, alpha: 0.5, "objective.beta": 0.5, smooth: 1e-5}
    assert spaces.given_values(untuned) == values
    drawn = {rate: 4.00012e-4, alpha: 0.11111, smooth: 0.02}
    changed = spaces.with_values(untuned, spaces.drawn_values(untuned, drawn))
    assert changed.optimizer.learning_rate == 4e-4
    assert changed.optimizer.head_learning_rate == 5.0  # a factor: it follows
    assert changed.objective == Tversky(alpha=0.111, beta=0.889, smooth=0.02)
    assert spaces.with_values(changed, spaces.given_values(untuned)) == untuned
    changed = experiment(GHM())
    drawn = {
        "objective.bins": 17,
        "objective.momentum": 0.5,
        spaces.LEARNING_RATE: 1e-3,
    }
    changed = spaces.with_values(changed, spaces.drawn_values(changed, drawn))
    assert changed.objective == GHM(bins=17, momentum=0.5)
    assert type(changed.objective.bins) is int
    values = {"objective.weights.1": 3.0, "objective.parts.1.smooth": 0.1}
    total = spaces.with_values(experiment(WeightedSum()), values).objective
    assert (total.weights, total.parts[1].smooth) == ((1.0, 3.0), 0.1)
