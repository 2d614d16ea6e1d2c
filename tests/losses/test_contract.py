"""The callers' view: signatures, docstrings, types and tracing."""

import dataclasses
import inspect
import re

import jax
import numpy as np
import pytest

from dicejax import losses
from dicejax.losses import (
    OverlapCounts,
    cross_entropy,
    dice,
    dice_from_counts,
    overlap_counts,
    self_adjusting_dice,
)
from dicejax.losses.contract import loss
from dicejax.losses.declaration import (
    NON_NEGATIVE,
    REGISTRY,
    UNIT_INTERVAL,
    Absent,
    Average,
    Bounds,
)

from .cases import CASES, draw
from .every import one_of_each, raises

LOGITS = np.random.default_rng(0).normal(size=(8, 6, 3)).astype(np.float32)
LABELS = np.random.default_rng(1).integers(0, 3, (8, 6))


def test_labels_out_of_range_are_fine_where_masked():
    wrong = np.where(LABELS == 1, 77, LABELS)
    got = cross_entropy(LOGITS, wrong, where=LABELS != 1)
    np.testing.assert_array_equal(got, cross_entropy(LOGITS, LABELS, where=LABELS != 1))


@pytest.mark.parametrize("case", one_of_each(CASES), ids=lambda case: case.name)
def test_no_loss_calls_another_that_checks_and_compiles(case):
    logits, labels, where = draw(case.form, shape=(2, 3))
    traced = jax.make_jaxpr(lambda z: case.loss(z, labels, where=where))(logits)
    public = [
        name for name in re.findall(r"name=(\w+)", str(traced)) if hasattr(losses, name)
    ]
    assert public == [case.function.__name__]


def test_counts_of_different_shapes_do_not_add():
    rows, whole = (overlap_counts(LOGITS, LABELS, axis=a) for a in (1, None))
    with raises("counts of shape (8, 3) and (3,) do not add"):
        rows + whole
    with raises("counts has arrays of different shapes: [(3,), (3,), (8, 3)]"):
        dice_from_counts(dataclasses.replace(whole, actual=rows.actual))
    with raises("smooth is -1.0 but must be in [0, inf)"):
        dice_from_counts(whole, smooth=-1.0)


def test_inside_another_jit_with_traced_settings():
    @jax.jit
    def both(logits, labels, alpha, smooth):
        counts = overlap_counts(logits, labels, alpha=alpha)
        whole = self_adjusting_dice(
            logits, labels, squared=False, alpha=alpha, smooth=smooth
        )
        return dice_from_counts(counts, smooth=smooth), whole

    composed, whole = both(LOGITS, LABELS, 0.5, 2.0)
    np.testing.assert_array_equal(composed, whole)


def test_counts_are_a_pytree_that_adds_and_crosses_jit():
    counts = overlap_counts(LOGITS, LABELS)
    assert len(jax.tree.leaves(counts)) == 3
    twice = jax.jit(lambda counts: counts + counts)(counts)
    np.testing.assert_allclose(twice.actual, 2 * counts.actual)
    assert isinstance(twice, OverlapCounts)


def test_label_types_do_not_matter():
    want = dice(LOGITS, LABELS)
    for dtype in (np.int8, np.uint8, np.int64):
        np.testing.assert_array_equal(dice(LOGITS, LABELS.astype(dtype)), want)
    yes = LABELS == 1
    z = LOGITS[..., 0]
    np.testing.assert_array_equal(
        dice(z, yes, class_axis=None), dice(z, yes.astype(int), class_axis=None)
    )


FIRST = {
    "ghm": ["logits", "labels", "state"],
    "ghm_regression": ["predictions", "targets", "state"],
    "hard_negative_mask": ["scores", "positives"],
    "dice_from_counts": ["counts"],
    "tversky_from_counts": ["counts"],
    "adjust_logits": ["logits"],
}
PUBLIC = [
    name
    for name in losses.__all__
    if name not in ("GHMState", "OverlapCounts", "class_weights", "ghm_state")
]


@pytest.mark.parametrize("name", PUBLIC)
def test_losses_keep_their_signature_and_document_every_argument(name):
    function = getattr(losses, name)
    assert function.__name__ == name
    parameters = inspect.signature(function).parameters
    first = FIRST.get(name, ["logits", "labels"])
    assert list(parameters)[: len(first)] == first
    for parameter in list(parameters.values())[len(first) :]:
        assert parameter.kind is parameter.KEYWORD_ONLY
    text = inspect.getdoc(function)
    sections = ("Args", "Returns", "Raises", "Source", "Example")
    places = [text.index(f"\n{section}:") for section in sections]
    assert places == sorted(places)
    documented = re.findall(r"^  (\w+):", text[places[0] : places[1]], re.MULTILINE)
    assert documented == list(parameters)


def of(**settings):
    """Return a formula whose hyper-parameters have these defaults."""
    low, absent, average = (
        settings.get(name, default)
        for name, default in (("low", 0.0), ("absent", "skip"), ("average", "none"))
    )

    def formula(
        logits,
        labels,
        *,
        low: float = low,
        absent: Absent = absent,
        average: Average = average,
    ):
        return logits

    return formula


SET = {"kind": "set"}


@pytest.mark.parametrize(
    ("declare", "error", "message"),
    [
        (lambda: loss(kind="Set")(of()), ValueError, "kind of formula is 'Set' but"),
        (lambda: loss(kind="pointwize")(of()), ValueError, "kind of formula is 'poin"),
        (
            lambda: loss(kind="stateful")(of()),
            ValueError,
            "formula: kind 'stateful' goes with an initial_state",
        ),
        (
            lambda: loss(**SET)(of(average="mean")),
            ValueError,
            "average of formula is 'mean' but must be 'none', 'macro' or 'micro'",
        ),
        (
            lambda: loss(**SET)(of(absent="skipped")),
            ValueError,
            "absent of formula is 'skipped' but must be 'smooth' or 'skip'",
        ),
        (
            lambda: loss(**SET, low=UNIT_INTERVAL)(of(low=2.0)),
            ValueError,
            "low of formula is 2.0 but not in [0, 1]",
        ),
        (lambda: loss(**SET, low=0.5)(of()), TypeError, "low of formula is 0.5, not"),
        (
            lambda: loss(**SET, high=UNIT_INTERVAL)(of()),
            TypeError,
            "formula does not take ['high']",
        ),
        (
            lambda: loss(**SET, low=UNIT_INTERVAL.tuned(0.0, 1.0, rest="high"))(of()),
            TypeError,
            "formula does not take ['high']",
        ),
        (
            lambda: NON_NEGATIVE.tuned(0.01, 0.5, scale="uniform"),
            ValueError,
            "scale is 'uniform' but must be 'linear', 'log' or 'log from 1'",
        ),
        (
            lambda: NON_NEGATIVE.tuned(0.0, 0.5, scale="log"),
            ValueError,
            "a range of scale 'log' cannot go from 0 to 0.5",
        ),
        (lambda: UNIT_INTERVAL.tuned(0.5, 2.0), ValueError, "a range from 0.5 to 2 le"),
        (lambda: Bounds(1.0, 0.0), ValueError, "bounds [1, 0] hold nothing"),
        (lambda: Bounds(0.0, 1.0, "row"), ValueError, "shape is 'row' but must be"),
    ],
)
def test_what_does_not_fit_is_refused_where_a_loss_is_declared(declare, error, message):
    before = dict(REGISTRY)
    with pytest.raises(error, match="^" + re.escape(message)):
        declare()
    assert before == REGISTRY
