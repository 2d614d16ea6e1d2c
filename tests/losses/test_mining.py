"""Hard negative mining: by hand, and against sorting each set in plain Python."""

import jax
import numpy as np
import pytest

from dicejax.losses import cross_entropy, hard_negative_mask, hard_negatives


def select(scores, positives, where, ratio, minimum):
    """Return the mask of one flat set."""
    (negatives,) = np.nonzero(where & ~positives)
    order = sorted(negatives, key=lambda i: (-scores[i], i))
    mask = where & positives
    mask[order[: max(minimum, int(ratio * mask.sum()))]] = True
    return mask


def oracle(*arrays, axis, **limits):
    ndim = arrays[0].ndim
    axes = [a % ndim for a in np.atleast_1d(range(ndim) if axis is None else axis)]
    rest = [a for a in range(ndim) if a not in axes]
    order = rest + sorted(axes)
    moved = [array.transpose(order) for array in arrays]
    result = np.zeros(moved[0].shape, bool)
    for index in np.ndindex(*result.shape[: len(rest)]):
        flat = select(*(array[index].ravel() for array in moved), **limits)
        result[index] = flat.reshape(result.shape[len(rest) :])
    return result.transpose(np.argsort(order))


@pytest.mark.parametrize("axis", [None, (), 0, -1, (0, 2), (2, 1)])
@pytest.mark.parametrize("ties", [False, True])
def test_masks_are_those_of_sorting_each_set(axis, ties):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        scores = rng.normal(size=(3, 4, 5)).astype(np.float32)
        scores = np.round(scores) if ties else scores
        positives, where = rng.random((2, 3, 4, 5)) < np.reshape(
            [0.2, 0.8], (2, 1, 1, 1)
        )
        for ratio, minimum in ((3.0, 1), (0.5, 0), (1.75, 2), (0.0, 100)):
            settings = {"negatives_per_positive": ratio, "minimum": minimum}
            got = hard_negative_mask(
                scores, positives, where=where, axis=axis, **settings
            )
            limits = {"ratio": ratio, "minimum": minimum}
            expected = oracle(scores, positives, where, axis=axis, **limits)
            np.testing.assert_array_equal(got, expected)


SCORES = np.array([0.2, 0.9, 0.8, 0.7, 0.9, 0.1])
FIRST, NONE = np.arange(6) < 1, np.zeros(6, bool)
SEEN = np.array([True, False, False, True, True, True])
ENDLESS = np.array([-np.inf, 1e30, np.inf, 0.0])


@pytest.mark.parametrize(
    ("scores", "positives", "settings", "expected"),
    [
        (SCORES, FIRST, {}, [1, 1, 1, 0, 1, 0]),
        # Of 0.9, the first.
        (SCORES, FIRST, {"negatives_per_positive": 1.9}, [1, 1, 0, 0, 0, 0]),
        (SCORES, FIRST, {"negatives_per_positive": 50.0}, [1, 1, 1, 1, 1, 1]),
        # Without positives the minimum stays.
        (SCORES, NONE, {}, [0, 1, 0, 0, 0, 0]),
        (SCORES, NONE, {"minimum": 0}, [0, 0, 0, 0, 0, 0]),
        # Masked entries are neither counted nor selected.
        (np.where(SEEN, SCORES, np.nan), FIRST, {"where": SEEN}, [1, 0, 0, 1, 1, 1]),
        (SCORES, FIRST, {"where": NONE}, [0, 0, 0, 0, 0, 0]),
        # Infinite scores are the hardest.
        (ENDLESS, NONE[:4], {"minimum": 2}, [0, 1, 1, 0]),
        (np.zeros((0, 3)), np.zeros((0, 3), bool), {"axis": -1}, []),
    ],
)
def test_masks_by_hand(scores, positives, settings, expected):
    got = hard_negative_mask(scores, positives, **settings)
    assert got.dtype == bool and got.shape == scores.shape
    assert got.tolist() == [bool(x) for x in expected]


def test_no_gradient_passes_and_the_mask_fits_a_loss():
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(2, 20)).astype(np.float32), np.zeros((2, 20), int)
    labels[:, 3] = 1

    def total(logits):
        scores = cross_entropy(logits, labels, class_axis=None)
        mask = hard_negative_mask(scores, labels == 1, axis=-1)
        losses = cross_entropy(logits, labels, class_axis=None, where=mask)
        return losses.sum(), mask

    gradient, mask = jax.jit(jax.grad(total, has_aux=True))(logits)
    assert mask.sum(-1).tolist() == [4, 4]
    p = 1 / (1 + np.exp(-logits))
    np.testing.assert_allclose(gradient, np.where(mask, p - labels, 0), rtol=1e-5)


def test_hard_negatives_have_the_mean_of_the_elements_that_stay():
    rng = np.random.default_rng(3)
    logits, labels = rng.normal(size=(3, 4, 5)), rng.integers(0, 5, (3, 4))
    labels[0, 2:] = -100
    with jax.enable_x64(True):
        each = np.asarray(cross_entropy(logits, labels))
        got = np.asarray(
            hard_negatives(logits, labels, negatives_per_positive=0.5, minimum=1.0)
        )
    seen, positive = labels != -100, labels > 0
    number = max(int(0.5 * (seen & positive).sum()), 1)
    hardest = np.sort(each[labels == 0])[::-1][:number]
    expected = np.append(each[seen & positive], hardest).mean()
    np.testing.assert_allclose(got.sum() / seen.sum(), expected, rtol=1e-12)
    assert (got > 0).sum() == (seen & positive).sum() + len(hardest)
    assert not got[~seen].any()
