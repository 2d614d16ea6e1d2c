"""What tuning varies: every loss is thought of, and every value it takes trains."""

import dataclasses
import math
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dicejax import config, objectives
from dicejax.comparison import spaces, tuning
from dicejax.data.sources import SyntheticNER
from dicejax.objectives import (
    GHM,
    CrossEntropy,
    Dice,
    Focal,
    LinearSchedule,
    Objective,
    SelfAdjustingDice,
    Tversky,
    WeightedCrossEntropy,
    WeightedSum,
)
from dicejax.optimizers import AdamW

PAGE = Path(__file__).parents[2] / "docs" / "comparing.md"
RATE_ALONE = {"ce", "zlpr", "lovasz"}


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


def test_every_public_loss_is_in_the_table():
    public = {
        value
        for value in vars(objectives).values()
        if isinstance(value, type)
        and issubclass(value, Objective)
        and "short_name" in vars(value)
    }
    assert set(spaces.SPACES) == public == set(objectives.by_short_name().values())
    alone = {kind.short_name for kind, ranges in spaces.SPACES.items() if not ranges}
    assert alone == RATE_ALONE
    assert {kind.short_name for kind in public if not paths(kind())} == RATE_ALONE


@pytest.mark.parametrize("kind", spaces.SPACES, ids=lambda kind: kind.short_name)
def test_ranges_are_of_numbers_and_hold_the_defaults(kind):
    default, fields = kind(), {field.name for field in dataclasses.fields(kind)}
    for name, one in spaces.SPACES[kind].items():
        assert name in fields and one.low < one.high and one.why
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


@pytest.mark.parametrize(
    "kind", [k for k in spaces.SPACES if spaces.SPACES[k]], ids=lambda k: k.short_name
)
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


def test_a_loss_of_ones_own_varies_what_it_is_derived_from():
    @objectives.objective
    class Mine(Dice):
        more: float = 1.0

    @objectives.objective
    class Other(Objective):
        more: float = 1.0

    assert paths(Mine()) == ["smooth"]
    assert paths(Other()) == []


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


def rows_of_docs():
    """The rows that the page on comparing has for the table of ranges."""
    drawn = {"linear": "", "log": ", log", "log from 1": ", log of 1 - value"}
    for kind, ranges in spaces.SPACES.items():
        if not ranges:
            yield f"| `{kind.short_name}` | - | - | its learning rate alone |"
        for name, one in ranges.items():
            more = f", `{one.rest}` = 1 - `{name}`" if one.rest else ""
            only = f" with `{one.only[0]}={one.only[1]}`" if one.only else ""
            whole = ", whole" if one.whole else ""
            yield (
                f"| `{kind.short_name}` | `{name}`{only}{more} | {one.low:g} to "
                f"{one.high:g}{drawn[one.scale]}{whole} | {one.why} |"
            )


def test_the_docs_have_these_ranges():
    text = PAGE.read_text()
    table = [line for line in text.splitlines() if line.startswith("| `")]
    assert table == list(rows_of_docs())
    assert f"a {spaces.FACTOR:g}th of the experiment's to {spaces.FACTOR:g} times" in (
        " ".join(text.split())
    )
    assert f"seed {tuning.SEED:,}" in text
