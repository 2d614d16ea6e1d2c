"""The tables of "Dice losses that people ship", computed when the site is built.

A page holds a marker such as `<!-- shipped dice losses -->` on a separate line; this
extension of Python-Markdown replaces it.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from markdown import Markdown
from markdown.extensions import Extension
from markdown.preprocessors import Preprocessor

from dicejax import losses

ROWS, POSITIVES, FEATURES = 10_000, 50, 8
STEPS, LEARNING_RATE = 400, 0.05
EPS = 1e-6

Loss = Callable[[Array, Array], Array]
"""From logits of class 1 and labels, both `[N]`, to the mean loss."""


@dataclasses.dataclass(frozen=True)
class Shipped:
    """A dice loss as a package computes it, and as this one does.

    Args:
      package: its name and version.
      link: where its code is.
      formula: TeX of the loss.
      set: elements over which it sums before it divides.
      theirs: the loss, written from the formula.
      code: call of this package that gives the same value; None: there is none.
      ours: what `code` does, on one logit per element.
    """

    package: str
    link: str
    formula: str
    set: str
    theirs: Loss
    code: str | None = None
    ours: Loss | None = None


def overlap(f: Array, y: Array, smooth: float, power: int = 1, axis=None) -> Array:
    """Return 1 - (2 I + smooth) / (F + Y + smooth) over an axis, None for all."""
    add = functools.partial(jnp.sum, axis=axis)
    both = add(f**power) + add(y**power) + smooth
    return 1 - (2 * add(f * y) + smooth) / both


def two_classes(z: Array) -> Array:
    """Return logits `[N, 2]` whose softmax is the sigmoid of `z`."""
    return jnp.stack([jnp.zeros_like(z), z], axis=-1)


def focus(z: Array, alpha: float) -> Array:
    """Return f = (1 - p)^alpha p, finite in value and gradient where p is 1."""
    return jnp.exp(jax.nn.log_sigmoid(z) + alpha * jax.nn.log_sigmoid(-z))


def both_classes(z: Array, y: Array) -> tuple[Array, Array]:
    """Return logits and labels of the two classes, each against the other."""
    return jnp.stack([-z, z], -1), jnp.stack([1 - y, y], -1)


def published_by_class(z: Array, y: Array) -> Array:
    """Compute the published code's loss of several classes."""
    z, y = both_classes(z, y)
    each = overlap(focus(z, 0.01)[..., None], y[..., None], 1.0, 2, axis=-1)
    return each.sum(-1).mean()


def of_gold(z: Array, y: Array) -> Array:
    """Compute sadice's loss."""
    f = focus(jnp.where(y == 1, z, -z), 1.0)[..., None]
    return overlap(f, jnp.ones_like(f), 1.0, axis=-1).mean()


def of_one_element(z: Array, y: Array) -> Array:
    """Compute GLiNER's loss."""
    return overlap(focus(z, 1.0)[..., None], y[..., None], EPS, axis=-1).mean()


def over_classes(z: Array, y: Array) -> Array:
    """Compute simpletransformers' loss."""
    z, y = both_classes(z, y)
    return overlap(jax.nn.sigmoid(z), y, EPS, axis=-1).mean()


def adjusted(z: Array, y: Array, **settings) -> Array:
    """Call `self_adjusting_dice` on one logit per element."""
    each = losses.self_adjusting_dice(z, y.astype(int), class_axis=None, **settings)
    return each.mean()


def adjusted_by_class(z: Array, y: Array, **settings) -> Array:
    """Call `self_adjusting_dice` on two classes, summed over them."""
    each = losses.self_adjusting_dice(two_classes(z), y.astype(int), **settings)
    return each.sum(-1).mean() if each.ndim > 1 else each.mean()


def plain(z: Array, y: Array, smooth: float) -> Array:
    """Call `dice` on one logit per element."""
    return losses.dice(z, y.astype(int), class_axis=None, smooth=smooth).mean()


def sigmoid_overlap(z: Array, y: Array, smooth: float) -> Array:
    """Compute dice without a factor, over all elements."""
    return overlap(jax.nn.sigmoid(z), y, smooth)


OFFICIAL = "https://github.com/ShannonAI/dice_loss_for_NLP"
FACTOR = r", \quad f = (1 - p)^{0.01} p"
SHIPPED = (
    Shipped(
        "dice_loss_for_NLP, two classes",
        OFFICIAL,
        r"1 - \frac{2 \sum f y + 1}{\sum f^2 + \sum y^2 + 1}" + FACTOR,
        "the micro-batch",
        lambda z, y: overlap(focus(z, 0.01), y, 1.0, 2),
        "self_adjusting_dice(z, y, class_axis=None)",
        adjusted,
    ),
    Shipped(
        "dice_loss_for_NLP, several classes",
        OFFICIAL,
        r"\sum_c 1 - \frac{2 f_c y_c + 1}{f_c^2 + y_c^2 + 1}" + FACTOR,
        "an element and a class",
        published_by_class,
        "self_adjusting_dice(z, y, axis=()).sum(-1)",
        functools.partial(adjusted_by_class, axis=()),
    ),
    Shipped(
        "sadice 0.1.3",
        "https://github.com/fursovia/self-adj-dice",
        r"1 - \frac{2 f + 1}{f + 2}, \quad f = (1 - p_y) p_y",
        "an element, its gold class alone",
        of_gold,
        'self_adjusting_dice(z, y, axis=(), form="gold", alpha=1, squared=False)',
        functools.partial(
            adjusted_by_class, axis=(), form="gold", alpha=1.0, squared=False
        ),
    ),
    Shipped(
        'GLiNER 0.2.29, `loss_type="dice"`',
        "https://github.com/urchade/GLiNER",
        r"1 - \frac{2 f y + \epsilon}{f + y + \epsilon}, \quad f = (1 - p) p",
        "an element and a class",
        of_one_element,
        "self_adjusting_dice(z, y, class_axis=None, axis=(), alpha=1, "
        "smooth=1e-6, squared=False)",
        functools.partial(adjusted, axis=(), alpha=1.0, smooth=EPS, squared=False),
    ),
    Shipped(
        'simpletransformers, `loss_type="dice"`',
        "https://github.com/ThilinaRajapakse/simpletransformers",
        r"1 - \frac{2 \sum_c p_c y_c}{\sum_c (p_c + y_c) + \epsilon} \approx 1 - p_y",
        "the classes of an element",
        over_classes,
    ),
    Shipped(
        "optax, `dice_loss`",
        "https://optax.readthedocs.io",
        r"1 - \frac{I + 1}{(P + Y) / 2 + 1}",
        "all axes but the first and the last",
        lambda z, y: optax.losses.dice_loss(
            z[None, :, None], y[None, :, None], reduction="mean"
        ).mean(),
        "dice(z, y, class_axis=None, smooth=2)",
        functools.partial(plain, smooth=2.0),
    ),
    Shipped(
        "MONAI 1.6.1, `DiceLoss(sigmoid=True)`",
        "https://docs.monai.io",
        r"1 - \frac{2 I + 10^{-5}}{P + Y + 10^{-5}}",
        "an image and a class",
        functools.partial(sigmoid_overlap, smooth=1e-5),
        "dice(z, y, class_axis=None, smooth=1e-5)",
        functools.partial(plain, smooth=1e-5),
    ),
)


def cross_entropy(z: Array, y: Array) -> Array:
    """Compute the baseline."""
    return losses.cross_entropy(z, y.astype(int), class_axis=None).mean()


def with_dice(z: Array, y: Array) -> Array:
    """Add `dice` over the batch to the baseline, `--losses sum`."""
    return cross_entropy(z, y) + plain(z, y, 1.0)


def data() -> tuple[Array, Array]:
    """Draw a linear problem with 0.5 % positives, the same each time."""
    rng = np.random.default_rng(0)
    y = np.zeros(ROWS)
    y[:POSITIVES] = 1
    x = rng.normal(size=(ROWS, FEATURES)) + 1.2 * y[:, None]
    return jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32)


def trained(loss: Loss) -> tuple[float, float]:
    """Train a logistic model; return F1 at p = 0.5, and the best F1."""
    x, y = data()
    optimizer = optax.adam(LEARNING_RATE)
    start = jnp.zeros(FEATURES + 1)

    def scores(w: Array) -> Array:
        return x @ w[:-1] + w[-1]

    @jax.jit
    def fit(w: Array) -> Array:
        def step(carry, _):
            w, state = carry
            slope = jax.grad(lambda w: loss(scores(w), y))(w)
            update, state = optimizer.update(slope, state)
            return (w + update, state), None

        return jax.lax.scan(step, (w, optimizer.init(w)), length=STEPS)[0][0]

    z = np.asarray(scores(fit(start)), np.float64)
    order = np.argsort(-z, kind="stable")
    gold = np.asarray(y)[order].cumsum()
    of_first = 2 * gold / (np.arange(1, ROWS + 1) + POSITIVES)
    # No threshold divides elements of one score.
    ends = np.append(np.diff(z[order]) != 0, True)
    called = int((z > 0).sum())
    at_half = of_first[called - 1] if called else 0.0
    return 100 * float(at_half), 100 * float(of_first[ends].max())


def slope(loss: Loss, p: float) -> float:
    """Return -dL/dz of a positive of probability `p`, alone in its set."""
    z = jnp.log(p) - jnp.log1p(-p)
    of_positive = jax.grad(lambda z: loss(z[None], jnp.ones(1)))
    return -float(of_positive(z))


def fixed_point(loss: Loss) -> str:
    """Return the p at which the slope of a lone positive turns, or 1."""
    grid = np.linspace(0.005, 0.995, 199)
    z = jnp.log(grid) - jnp.log1p(-grid)
    of_positive = jax.grad(lambda z: loss(z[None], jnp.ones(1)))
    slopes = -np.asarray(jax.vmap(of_positive)(z))
    turns = np.flatnonzero((slopes[:-1] > 0) & (slopes[1:] <= 0))
    return f"{grid[turns[0] + 1]:.2f}" if len(turns) else "1"


def checked(row: Shipped) -> str:
    """Return the call that equals a package's loss, in value and gradient.

    Raises:
      ValueError: it does not equal it.
    """
    if row.ours is None:
        return "none: a surrogate of accuracy"
    rng = np.random.default_rng(1)
    z = jnp.asarray(rng.normal(size=64) * 3, jnp.float32)
    y = jnp.asarray(rng.random(64) < 0.2, jnp.float32)
    pairs = zip(
        jax.value_and_grad(row.theirs)(z, y),
        jax.value_and_grad(row.ours)(z, y),
        strict=True,
    )
    apart = max(float(jnp.abs(a - b).max()) for a, b in pairs)
    if apart > 1e-6:
        raise ValueError(f"{row.package}: {row.code} differs by {apart:.1e}")
    return f"`{row.code}`"


def forms() -> Iterator[str]:
    """Yield the table of formulas and of the calls that equal them."""
    yield "| package | loss | it sums over | here |"
    yield "| --- | --- | --- | --- |"
    for row in SHIPPED:
        name = f"[{row.package}]({row.link})"
        yield f"| {name} | ${row.formula}$ | {row.set} | {checked(row)} |"


def outcomes() -> Iterator[str]:
    """Yield the table of slopes, fixed points and of a linear model's F1."""
    yield "| loss | slope at p = 0.1 | at 0.9 | fixed point | F1 at 0.5 | best F1 |"
    yield "| --- | --- | --- | --- | --- | --- |"
    named = [(row.package, row.theirs) for row in SHIPPED]
    named += [("cross-entropy", cross_entropy), ("`sum`: it and `dice`", with_dice)]
    for name, loss in named:
        slopes = f"{slope(loss, 0.1):.4f} | {slope(loss, 0.9):.4f}"
        at_half, best = trained(loss)
        turn = fixed_point(loss)
        yield f"| {name} | {slopes} | {turn} | {at_half:.1f} | {best:.1f} |"


MARKERS = {
    "<!-- shipped dice losses -->": forms,
    "<!-- what shipped dice losses do -->": outcomes,
}


class Markers(Preprocessor):
    """Fill the markers of the page."""

    def run(self, lines: list[str]) -> list[str]:
        """Return the lines with the tables in place of the markers."""
        return [
            made for line in lines for made in MARKERS.get(line, lambda x=line: [x])()
        ]


class ShippedExtension(Extension):
    """Register the preprocessor."""

    def extendMarkdown(self, md: Markdown) -> None:
        """Run before formulas are set aside."""
        md.preprocessors.register(Markers(md), "shipped", priority=28)


def makeExtension(**settings) -> ShippedExtension:
    """Return the extension, for Python-Markdown."""
    return ShippedExtension(**settings)
