"""Laws that hold for every loss: masks, order, sums of counts, scores, directions."""

import functools

import hypothesis
import jax
import numpy as np
import pytest
import sklearn.metrics
from hypothesis import strategies as st

from dicejax import losses
from dicejax.losses import (
    dice,
    dice_from_counts,
    overlap_counts,
    tversky_from_counts,
)

from .cases import (
    BINARY,
    FORMS,
    LAYOUTS,
    MULTI_LABEL,
    PER_CLASS,
    SOFTMAX,
    draw,
    layout,
)
from .every import EVERY, over, parameters, some, value_and_gradients

pytestmark = pytest.mark.slow  # as a whole

CLASSES = 3
# Room for a class of one element in 501.
SHAPE = (3, 167)
KINDS = ("random", "extreme", "tied", "absent_class")
laws = hypothesis.settings(max_examples=5, deadline=None)


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def draws(form):
    """Draw logits, labels, where, of a random kind, in float64."""

    def make(kind, seed):
        logits, labels, where = draw(form, kind, seed, SHAPE)
        return logits.astype(np.float64), labels, where

    return st.builds(make, st.sampled_from(KINDS), st.integers(0, 2**31))


def both(case, logits, labels, where, **changes):
    """Return losses, and gradients of their sum by logits and hyper-parameters."""
    settings = parameters(case) | changes
    (_, values), gradients = value_and_gradients(case.name)(
        logits, settings, labels, where
    )
    return np.asarray(values), *map(np.asarray, jax.tree.leaves(gradients))


def widened(where, array):
    return where.reshape(where.shape + (1,) * (array.ndim - where.ndim))


def assert_identical(got, expected):
    jax.tree.map(np.testing.assert_array_equal, list(got), list(expected))


def has_elements(values):
    return values.shape[: len(SHAPE)] == SHAPE


def of_either_mask(cases):
    """Return some cases, and some whose single entries can be masked."""
    return some(cases) + some([case for case in cases if case.form == MULTI_LABEL])


@over(EVERY, fast=of_either_mask)
@laws
@hypothesis.given(data=st.data())
def test_masked_entries_change_nothing(case, data):
    logits, labels, where = data.draw(draws(case.form))
    junk = data.draw(st.sampled_from([np.nan, np.inf, -np.inf, 1e308]))
    # Traced labels out of range are masked: by `where`, or themselves.
    label = data.draw(st.sampled_from([-100, -1, CLASSES, 99]))
    seen = widened(where, logits)
    if case.form == MULTI_LABEL:  # single entries are masked too
        seen = seen & (labels != -100)
    dirty = np.where(seen, logits, junk)
    dirty_labels = np.where(widened(where, labels), labels, label)

    want = both(case, logits, labels, where)
    for mask in (where, np.ones_like(where)):
        got = both(case, dirty, dirty_labels, mask)
        assert_identical(got, want)
        assert all(np.isfinite(x).all() for x in got)
    assert not want[1][~np.broadcast_to(seen, logits.shape)].any()
    if has_elements(want[0]):
        assert not want[0][~(seen if want[0].shape == seen.shape else where)].any()


@over([case for case in EVERY if case.takes_soft])
def test_masked_soft_labels_change_nothing(case):
    logits, labels, where = draw(case.form, "soft", shape=(3, 4))
    wide = widened(where, logits)

    @jax.jit
    @functools.partial(jax.value_and_grad, argnums=(0, 1))
    def total(logits, labels):
        return case.loss(logits, labels, where=where).sum()

    want = jax.tree.leaves(total(logits, labels))
    for junk, label in ((np.nan, np.nan), (np.inf, -100.0)):
        dirty = np.where(wide, logits, np.float32(junk))
        got = total(dirty, np.where(wide, labels, np.float32(label)))
        assert_identical(jax.tree.leaves(got), want)
    for gradient in want[1:]:
        assert np.isfinite(gradient).all() and not np.where(wide, 0, gradient).any()


# The rules of these name a class by its number, 0 if nothing is said.
OF_A_CERTAIN_CLASS = ("majority_or_minority", "unified_focal")


@over(EVERY)
@laws
@hypothesis.given(data=st.data())
def test_order_of_elements_and_classes_does_not_matter(case, data):
    logits, labels, where = data.draw(draws(case.form))
    if case.function.__name__ == "ghm":  # a bin's edge may move by rounding
        logits = logits + np.random.default_rng(0).normal(size=logits.shape)
    shuffle = np.random.default_rng(data.draw(st.integers(0, 2**31))).permutation
    rows, columns, classes = map(shuffle, (*SHAPE, CLASSES))
    fixed = case.function.__name__ in OF_A_CERTAIN_CLASS or "exclude_class" in (
        case.settings
    )
    classes = np.arange(CLASSES) if fixed else classes

    def shuffled(array):
        return array[rows][:, columns]

    moved, renamed, changes = shuffled(logits), shuffled(labels), {}
    if case.form != BINARY:
        moved = moved[..., classes]
        chosen = parameters(case)
        changes = {name: chosen[name][classes] for name in PER_CLASS if name in chosen}
    if case.form == SOFTMAX:
        renamed = np.where(
            renamed < 0, -100, np.argsort(classes)[np.maximum(renamed, 0)]
        )
    if case.form == MULTI_LABEL:
        renamed = renamed[..., classes]
    want = both(case, logits, labels, where)[0]
    got = both(case, moved, renamed.astype(np.int32), shuffled(where), **changes)[0]
    elements = has_elements(want)
    want = shuffled(want) if elements else want
    if case.form != BINARY and want.ndim > (len(SHAPE) if elements else 0):
        want = want[..., classes]
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("axis", [None, 0])
@pytest.mark.parametrize("cut", [0, 1, 3])
def test_counts_of_a_concatenation_are_the_sum_of_the_counts(form, axis, cut):
    logits, labels, where = draw(form, seed=cut)
    count = functools.partial(overlap_counts, axis=axis, alpha=0.5, **LAYOUTS[form])
    whole = count(logits, labels, where=where)
    parts = count(logits[:cut], labels[:cut], where=where[:cut]) + count(
        logits[cut:], labels[cut:], where=where[cut:]
    )
    for total, added in zip(*map(jax.tree.leaves, (whole, parts)), strict=True):
        np.testing.assert_allclose(total, added, rtol=1e-6)
    for finish in (dice_from_counts, tversky_from_counts):
        np.testing.assert_allclose(finish(whole), finish(parts), rtol=1e-5)


def certain(decisions, form):
    """Return logits with probabilities of exactly 0 or 1."""
    if form == SOFTMAX:
        decisions = np.eye(CLASSES)[decisions]
    return 1e4 * (2.0 * decisions - 1)


def is_zero_at_the_truth(case):
    # With a factor (1-p)^alpha a certain positive counts for nothing: not with alpha 0.
    adjusts = case.function is losses.self_adjusting_dice
    return case.is_set and not (adjusts and parameters(case)["alpha"] > 0)


@over(list(filter(is_zero_at_the_truth, EVERY)))
@pytest.mark.parametrize("kind", ["random", "absent_class"])
def test_a_perfect_prediction_of_a_set_costs_nothing(case, kind):
    _, labels, where = draw(case.form, kind, shape=SHAPE)
    got = both(case, certain(np.maximum(labels, 0), case.form), labels, where)[0]
    np.testing.assert_allclose(got, 0, atol=1e-15)


def decided(form, seed):
    """Return logits, labels, where, and the arrays for scikit-learn."""
    rng = np.random.default_rng(seed)
    # Class 2 is absent, class 1 only predicted, and some labels are wrong.
    _, labels, where = draw(form, "absent_class", seed, (6, 9))
    top = CLASSES - 1 if form == SOFTMAX else 2
    decisions = np.where(rng.random(labels.shape) < 0.6, labels, 0)
    decisions = np.where(rng.random(labels.shape) < 0.2, 1, decisions) % top
    logits = certain(decisions, form)
    seen = where if form != MULTI_LABEL else where & (labels != -100).all(-1)
    seen = seen & (labels != -100) if form != MULTI_LABEL else seen
    return logits, labels, seen, labels[seen], decisions[seen]


BARE, F1 = {"smooth": 0.0}, sklearn.metrics.f1_score
IOU = sklearn.metrics.jaccard_score
SCORES = [
    ("dice", BARE, F1, {}),
    ("dice", BARE | {"squared": True}, F1, {}),
    ("tversky", BARE, F1, {}),
    ("focal_tversky", BARE | {"gamma": 1.0, "alpha": 0.5, "beta": 0.5}, F1, {}),
    ("dice_semimetric", BARE | {"variant": "dml1"}, F1, {}),
    ("dice_semimetric", BARE | {"variant": "dml2"}, F1, {}),
    ("self_adjusting_dice", BARE | {"alpha": 0.0}, F1, {}),
    ("sigmoid_f1", BARE | {"average": "none"}, F1, {}),
    ("jaccard", BARE, IOU, {}),
    ("lovasz_softmax", {"absent": "smooth"}, IOU, {}),
    *(
        (
            "soft_f1",
            BARE | {"beta": beta, "average": average, "exclude_class": left_out},
            functools.partial(sklearn.metrics.fbeta_score, beta=beta),
            {"average": None if average == "none" else average} | among,
        )
        for average in ("macro", "micro", "none")
        for beta in (0.5, 1.0, 2.0)
        for left_out, among in ((None, {}), (0, {"labels": [1, 2]}))
    ),
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("name", "settings", "metric", "theirs"), SCORES)
def test_the_loss_of_decisions_is_one_minus_their_score(
    name, settings, metric, theirs, form
):
    not_softmax = name == "sigmoid_f1"
    left_out = settings.get("exclude_class") is not None
    if (form == BINARY and left_out) or (form == SOFTMAX and not_softmax):
        return
    if form == BINARY:  # a score of 1 for a class that never occurs
        theirs = {"average": "binary"}
    elif form == SOFTMAX:
        theirs = {"labels": range(CLASSES)} | theirs
    logits, labels, where, truth, decisions = decided(form, seed=1)
    settings = settings | {"where": where} | layout(name, form)
    got = getattr(losses, name)(logits, labels, **settings)
    settings = {"average": None, "zero_division": 1.0} | theirs
    np.testing.assert_allclose(
        got, 1 - metric(truth, decisions, **settings), atol=1e-12
    )


RARE = CLASSES - 1


def rare_batch(form):
    """Return logits, labels, one rare element in 501 and five false positives."""
    rng = np.random.default_rng(0)
    rare, alarms = np.zeros(SHAPE, bool), np.zeros(SHAPE, bool)
    rare[1, 30] = alarms[0, 3:6] = alarms[2, 99:101] = True
    labels = (rng.random(SHAPE) < 0.2).astype(np.int32)
    labels[alarms] = 0
    logits = rng.normal(size=(*SHAPE, CLASSES)) + 2 * np.eye(CLASSES)[labels]
    logits[..., RARE] = rng.normal(size=SHAPE) - 6
    # Its own p is about 0.4; those of the false alarms, 0.9, are the worse errors.
    logits[rare] = [0.0, -1.0, -0.2]
    logits[alarms] = [0.0, -6.0, 2.2]
    labels[rare] = RARE
    if form == BINARY:
        return logits[..., RARE], rare.astype(np.int32), rare, alarms
    if form == MULTI_LABEL:
        labels = np.eye(CLASSES, dtype=np.int32)[labels]
    return logits, labels, rare, alarms


@over(EVERY)
def test_the_rarest_class_is_pushed_up_where_it_is_and_down_elsewhere(case):
    chosen = parameters(case)
    if case.function is losses.self_adjusting_dice and chosen["alpha"] == 0.5:
        # By design it turns round at p* = 1/(1 + alpha), which false alarms are beyond.
        chosen["alpha"] = np.array(0.05)
    if "class_weights" in chosen:  # one of 0 says that nothing pushes
        chosen["class_weights"] = np.ones_like(chosen["class_weights"])
    logits, labels, rare, alarms = rare_batch(case.form)
    gradient = both(case, logits, labels, np.ones(SHAPE, bool), **chosen)[1]
    gradient = gradient if case.form == BINARY else gradient[..., RARE]
    assert (gradient[rare] < 0).all()
    assert (gradient[alarms] > 0).all()


@over(EVERY)
def test_losses_are_not_negative(case):
    for kind in KINDS:
        logits, labels, where = draw(case.form, kind, 7, SHAPE)
        values = both(case, logits.astype(float), labels, where)[0]
        assert (values >= -1e-12).all()
        unbounded = (
            losses.unified_focal,
            losses.pairwise_auc,
            losses.auc_margin,
            losses.log_dice,
            losses.lovasz_hinge,
            losses.mcc,
        )
        if case.is_set and case.function not in unbounded:
            assert (values <= 1).all()


def test_masks_of_as_many_elements_as_classes_mask_elements():
    logits = np.array([[2.0, 0.0, 1.0], [0.0, 1.0, 0.0], [3.0, 0.0, 0.0]])
    labels, where = np.array([0, 1, 2]), np.array([True, True, False])
    for function in (dice, functools.partial(dice, smooth=0.0, squared=True)):
        np.testing.assert_allclose(
            function(logits, labels, where=where), function(logits[:2], labels[:2])
        )
    # One set per element, no smoothing, a masked row: 0, not 0/0.
    rows = dice(logits, labels, where=where, axis=(), smooth=0.0)
    assert rows[2].tolist() == [0.0, 0.0, 0.0]


OVERLAPS = """dice log_dice log_cosh_dice dice_semimetric soft_f1 tversky focal_tversky
jaccard"""


@pytest.mark.parametrize("name", OVERLAPS.split())
def test_a_rare_class_is_not_pushed_to_nothing_before_elements_are_separated(name):
    """With one p for all elements, dice falls with p if 2 Y (Y + s) is below N s."""
    labels = np.arange(4096) == 0  # one positive element

    def slope(**settings):
        def loss(z):
            logits = jax.numpy.full(labels.shape, z)
            return getattr(losses, name)(
                logits, labels.astype(int), class_axis=None, **settings
            )

        return float(jax.grad(loss)(-2.0))

    assert slope() < 0 < slope(smooth=1.0)
