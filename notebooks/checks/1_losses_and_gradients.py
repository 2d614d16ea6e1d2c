"""What the cells of the notebook of this name must have computed, by their ids."""

# %% losses-and-gradients-04
from dicejax.study.gradients.curves import NEGATIVE_P, probabilities


def slope(function, z, step=1e-5):
    """Return a finite difference, in double precision."""
    return (function(z + step) - function(z - step)) / (2 * step)


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


# %% losses-and-gradients-08
for alpha in ALPHAS:
    p, derivative = figure_one(alpha, POINTS)
    f = (1 - p) ** alpha * p
    by_hand = (1 - p) ** (alpha - 1) * (1 - (1 + alpha) * p) / (1 + f) ** 2
    if alpha >= 0.1:  # below, the slope at p near 1 is too steep for float32
        assert np.allclose(derivative, by_hand, atol=2e-4)
    assert abs(crossing(p, derivative) - 1 / (1 + alpha)) < 2e-3
assert crossing(*figure_one(0.0, POINTS)) is None  # plain dice pulls up everywhere

# %% losses-and-gradients-10
by_hand = {
    "cross_entropy": lambda z: -np.log(sigmoid(z)),
    "focal": lambda z: -((1 - sigmoid(z)) ** 2) * np.log(sigmoid(z)),
    "self_adjusting_dice": lambda z: (
        1
        - (2 * np.sqrt(1 - sigmoid(z)) * sigmoid(z) + 1)
        / (np.sqrt(1 - sigmoid(z)) * sigmoid(z) + 2)
    ),
}
p = probabilities(POINTS)[2:-2]
p = p.astype(np.float32).astype(float)
z = np.log(p) - np.log1p(-p)
found = {}
for name, curve in curves.items():
    values, slopes = evaluate(curve, p, [1])
    found[name] = slopes[0]
    assert np.allclose(values[0], by_hand[name](z), atol=1e-4), name
    assert np.allclose(slopes[0], slope(by_hand[name], z), atol=1e-4), name

assert np.allclose(found["cross_entropy"], p - 1, atol=1e-5)
very_wrong, easy = p < 0.01, p > 0.8
assert (found["cross_entropy"][very_wrong] < -0.98).all()
assert (np.abs(found["self_adjusting_dice"][very_wrong]) < 0.02).all()
assert (np.abs(found["focal"][easy]) < np.abs(found["cross_entropy"][easy])).all()


# %% losses-and-gradients-why-1
(barely, clearly) = told.values()
assert barely[0] == clearly[0] == np.float32(1 / 3)
by_hand = [
    [np.square(np.array(p) - np.eye(3)).sum(-1).mean(), -np.log(np.diag(p)).mean()]
    for p in models.values()
]
assert np.allclose([barely[1:], clearly[1:]], by_hand, atol=1e-5)
assert barely[1] > clearly[1] and barely[2] > clearly[2]

# %% losses-and-gradients-why-3
slopes_by_hand = {
    "squared error": -4 * p_of_z * (1 - p_of_z) ** 2,
    "cross-entropy": p_of_z - 1,
    "dice, smooth=1": -3 * p_of_z * (1 - p_of_z) / (p_of_z + 2) ** 2,
}
bends = {}
for label, by_hand in slopes_by_hand.items():
    assert np.allclose(of_logit[label][1], by_hand, atol=1e-4), label
    bends[label] = np.diff(by_hand).min()
    if label != "cross-entropy":
        assert abs(by_hand[0]) < 0.01  # at z = -6: surely wrong
assert bends["squared error"] < 0 < bends["cross-entropy"]
assert of_logit["cross-entropy"][1].argmin() == 0


# %% losses-and-gradients-14
def soft_dice(p, labels, smooth):
    return 1 - (2 * (p * labels).sum() + smooth) / (p.sum() + labels.sum() + smooth)


labels = np.eye(SIZE)[0]
others = np.full(SIZE, NEGATIVE_P)
others[0] = POSITIVE_P
at_half = {}
for smooth in dice:
    for element in (0, 1):

        def of_logit(z, element=element, smooth=smooth):
            p = others.copy()
            p[element] = sigmoid(z)
            return soft_dice(p, labels, smooth)

        values, slopes = evaluate(dice[smooth], np.array([0.5]), [element])
        assert np.allclose(values[0, 0], of_logit(0.0), atol=1e-5)
        assert np.allclose(slopes[0, 0], slope(of_logit, 0.0), atol=1e-5)
        at_half[smooth, element] = slopes[0, 0]
assert abs(at_half[1.0, 0]) < 0.75 * abs(at_half[0.01, 0])  # the positive
assert at_half[1.0, 1] > at_half[0.01, 1] > 0  # a false positive

# %% losses-and-gradients-16
assert 0 < many < few
assert np.isclose(*same)

# %% losses-and-gradients-18
assert not jnp.isfinite(gradients.pop("log of softmax")).all()
for name, gradient in gradients.items():
    assert jnp.isfinite(getattr(losses, name)(steep, gold)).all(), name
    assert jnp.isfinite(gradient).all(), name
