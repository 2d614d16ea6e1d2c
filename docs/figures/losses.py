"""Draws what `docs/losses-*.md` show: every loss and its slope, one figure per family.

    python docs/figures/losses.py [--folder FOLDER] [--points N] [--format svg]

Every value comes from calling `dicejax.losses`, every slope from `jax.grad`. The same
version of Matplotlib draws the same bytes each time.
"""

import argparse
import functools
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

from dicejax import losses
from dicejax.losses import class_weights
from dicejax.study import figures
from dicejax.study.figures import COLORS, REFERENCE
from dicejax.study.gradients.curves import (
    NEGATIVE_P,
    OF_POSITIVE,
    POSITIVE_P,
    SIZE,
    SLOPE,
    LossCurve,
    P,
    crossing,
    draw_figure_one,
    draw_losses,
    evaluate,
    logit,
    mark,
    of_loss,
    one_element,
    one_of_a_set,
    probabilities,
)

INK = "#767676"

SETTINGS = {
    "axes.titlesize": 9.5,
    "legend.fontsize": 8,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "axes.titlecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.grid": True,
    "grid.color": INK,
    "grid.alpha": 0.22,
    "lines.linewidth": 1.7,
    "legend.frameon": False,
    "path.simplify_threshold": 0.3,
}

# How often the classes of the pictures occur: of label 0, of label 1.
COUNTS = (900.0, 100.0)

of_one = functools.partial(of_loss, setting=one_element)
in_set = functools.partial(of_loss, setting=one_of_a_set)


def draw(folder: Path, points: int = 64, kind: str = "svg") -> dict[str, set[str]]:
    """Writes all figures into a folder.

    Args:
      folder: where to; it must exist.
      points: how many values each line has.
      kind: "svg" or "png".

    Returns:
      The names of the losses that each file shows.
    """
    drawn = {}
    options = {"transparent": True} if kind == "svg" else {"dpi": 110}
    with figures.look(settings=SETTINGS):
        for family in FAMILIES:
            figure, names = family(points)
            path = folder / f"{family.__name__}.{kind}"
            image = figures.rendered(figure, kind, **options)
            path.write_bytes(compact(image) if kind == "svg" else image)
            drawn[path.name] = names
    return drawn


def compact(svg: bytes) -> bytes:
    """Return an SVG without metadata, in few lines, coordinates rounded."""
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", svg.decode(), flags=re.DOTALL)
    text = re.sub(r"(?<![\d.])([1-9]\d*\.\d\d)\d+", r"\1", text)
    text = re.sub(r"\n(?=[^<]*>)", " ", text)
    return re.sub(r">\s+<", "><", text).replace("</g><g", "</g>\n<g").encode()


# Families


def cross_entropy(points: int) -> tuple[Figure, set[str]]:
    """One element, binary form, label 1."""
    curves = [
        of_one("cross_entropy"),
        of_one("cross_entropy", label="label_smoothing=0.1", label_smoothing=0.1),
        of_one("poly", label="epsilon=1"),
        of_one("poly", label="epsilon=-1", epsilon=-1.0),
        of_one("focal", label="gamma=2"),
        of_one("brier"),
        of_one("majority_or_minority", label="a minority, weight=0.5"),
    ]
    words = {"x": P, "loss": "L (nats)", "slope": SLOPE}
    return _draw(curves, points, {1: ""}, top=4.0, has_reference=True, **words)


def priors(points: int) -> tuple[Figure, set[str]]:
    """One element, binary form, of the rare and of the frequent label."""
    counts = jnp.array(COUNTS)
    curves = [
        of_one("cross_entropy"),
        of_one("logit_adjusted", label="tau=1", class_counts=counts),
        of_one("ldam", label="max_margin=0.5", class_counts=counts),
        of_one("vs", label="tau=1, gamma=0.15", class_counts=counts),
        of_one("vs", label="tau=0, gamma=0.15", class_counts=counts, tau=0.0),
    ]
    titles = {
        label: f"gold class has {COUNTS[label] / sum(COUNTS):.0%} of the elements"
        for label in (1, 0)
    }
    words = {"x": P, "loss": "L (nats)", "slope": SLOPE}
    return _draw(curves, points, titles, top=6.0, has_reference=True, **words)


def dice(points: int) -> tuple[Figure, set[str]]:
    """A set of one positive and 19 negatives."""
    written = {"squared": True, "smooth": 1.0}  # the paper's
    return _set_figure(
        points,
        [
            in_set("dice", label="smooth=1e-5"),
            in_set("dice", label="smooth=1", smooth=1.0),
            in_set("dice", label="squared, smooth=1", **written),
            in_set("dice", label="squared, axis=() (eq. 7)", **written, axis=()),
            in_set("log_cosh_dice", label="smooth=1e-5"),
            in_set("generalized_dice", label="both classes"),
        ],
    )


def dice_semimetric(points: int) -> tuple[Figure, set[str]]:
    """A set of one element of a soft label, then the same among wrong ones."""
    curve = functools.partial(of_loss, setting=_of_soft_set)
    curves = [
        curve("dice"),
        curve("dice_semimetric", label="dml1", variant="dml1"),
        curve("dice_semimetric", label="dml2", variant="dml2"),
    ]
    titles = {0: "the others are right", 1: "each other has p = 0.1"}
    figure, names = _draw(curves, points, titles, loss="L of the set")
    for axes in figure.axes:
        axes.axvline(SOFT_LABEL, **REFERENCE)
    return figure, names


def tversky(points: int) -> tuple[Figure, set[str]]:
    """The set of `dice`, with false positives and false negatives weighed apart."""
    return _set_figure(
        points,
        [
            in_set("tversky", label="alpha=0.5, beta=0.5"),
            in_set("tversky", label="alpha=0.3, beta=0.7", alpha=0.3, beta=0.7),
            in_set("focal_tversky", label="alpha=0.3, beta=0.7"),
            in_set("jaccard"),
            in_set("unified_focal", label="asymmetric"),
            in_set("unified_focal", label="symmetric", variant="symmetric"),
        ],
    )


def f1(points: int) -> tuple[Figure, set[str]]:
    """The set of `dice`, scored as evaluation scores it."""
    entities = {"exclude_class": 0}
    return _set_figure(
        points,
        [
            in_set("soft_f1", label="macro"),
            in_set("soft_f1", label="without class 0", **entities),
            in_set("soft_f1", label="without class 0, beta=2", beta=2.0, **entities),
            in_set("sigmoid_f1", label="slope=1", class_axis=None),
            in_set("sigmoid_f1", label="slope=4", class_axis=None, slope=4.0),
            in_set("lovasz_softmax", label="class 1"),
        ],
    )


def self_adjusting_dice(points: int) -> tuple[Figure, set[str]]:
    """One element: where positives stop, the paper's Figure 1, and negatives."""
    name, written = "self_adjusting_dice", {"axis": (), "squared": False}
    p = probabilities(2 * points)
    figure, (loss, figure_1, slope, negative) = figures.panels(2, 2)
    for index, alpha in enumerate((0.0, 0.01, 0.1, 0.5, 1.0)):
        look = figures.style(index)
        curve = functools.partial(of_loss, name, alpha=alpha, **written)
        values, slopes = evaluate(curve(setting=one_element), p, [0, 1])
        best = crossing(p, slopes[1])
        text = f"alpha={alpha:g}"
        if best is not None:
            mark(loss, best, np.interp(best, p, values[1]), look["color"])
            mark(slope, best, 0, look["color"])
            text += f": p* = {best:.2f}"
        loss.plot(p, values[1], **look, label=text)
        slope.plot(p, slopes[1], **look)
        negative.plot(1 - p, values[0], **look)

    draw_figure_one(figure_1, {0.0: 0, 1.0: 4}, 2 * points)
    stopped = curve(setting=one_element, stop_gradient_weight=True)
    text = "alpha=1, stop_gradient_weight"
    slope.plot(p, evaluate(stopped, p, [1])[1][0], **figures.style(5), label=text)

    for axes in (loss, slope):
        axes.set_xlabel(P)
    loss.set(title="positive: loss", ylabel="L (smooth=1)")
    slope.set(title="positive: slope", ylabel="dL/dz (smooth=1)")
    negative.set(
        title="negative, a set of its own: loss",
        xlabel=OF_POSITIVE,
        ylabel="L (smooth=1)",
    )
    slope.axhline(0, **REFERENCE)
    figures.legend(figure, loss, slope)
    return figure, {name}


def multi_label(points: int) -> tuple[Figure, set[str]]:
    """One element with one label of 20: its entry varies, then one of the others."""
    curve = functools.partial(of_loss, setting=_of_labels)
    frequencies = {
        "class_counts": jnp.tile(COUNTS[1] * jnp.array([99.0, 1.0]), (SIZE, 1)),
    }
    curves = [
        curve("cross_entropy", multi_label=True),
        curve("asymmetric", label="margin=0.05"),
        curve("asymmetric", label="margin=0", margin=0.0),
        curve("zlpr"),
        curve("distribution_balanced", **frequencies),
    ]
    titles = {0: "a label that it has", 1: "a label that it lacks"}
    words = {"x": "p of the label", "loss": "L (nats)"}
    return _draw(curves, points, titles, top=4.0, has_reference=True, **words)


def ghm(points: int) -> tuple[Figure, set[str]]:
    """A crowd of easy elements, few hard ones and a clump of outliers."""
    rising = (jnp.arange(4 * points) + 0.5) / (4 * points)
    norms = jnp.sort(jnp.concatenate([rising**5, 1 - 0.05 * rising[::8]]))
    z = logit(1 - norms)
    labels = jnp.ones(z.shape, int)
    mu = 0.02
    distances = mu * norms / jnp.sqrt(1 - norms**2)

    def ghm(z, bins):
        state = losses.ghm_state(bins)
        return losses.ghm(z, labels, state, class_axis=None, momentum=0.0)[0]

    def ghm_regression(d, bins):
        state = losses.ghm_state(bins)
        zeros = jnp.zeros_like(d)
        return losses.ghm_regression(d, zeros, state, mu=mu, momentum=0.0)[0]

    figure, panels = figures.panels(2, 2)
    for function, place, x, unit, (left, right) in (
        (ghm, z, 1 - norms, 1.0, panels[:2]),
        (ghm_regression, distances, distances / mu, mu, panels[2:]),
    ):
        # One bin harmonises nothing: every weight is 1.
        for bins in (1, 10):
            values = function(place, bins) / unit
            slopes = jax.grad(lambda v, f=function, b=bins: jnp.sum(f(v, b)))(place)
            bin_of = np.minimum(np.floor(norms * bins), bins - 1)
            gaps = np.flatnonzero(np.diff(bin_of)) + 1
            look = REFERENCE if bins == 1 else figures.style(0)
            text = "one bin: nothing harmonised" if bins == 1 else "ten bins"
            for axes, line in ((left, values), (right, slopes)):
                x_of_line, line = (
                    np.insert(np.asarray(axis, float), gaps, np.nan)
                    for axis in (x, line)
                )
                axes.plot(x_of_line, line, **look, label=text)
        left.set_title(f"{function.__name__}: loss")
        right.set_title(f"{function.__name__}: slope")
    for axes in panels[:2]:
        axes.set(xlabel=P, ylabel=SLOPE)
    for axes in panels[2:]:
        axes.set(xlabel="|prediction - target| / mu", ylabel="dL/dprediction")
        axes.set_xlim(-0.1, 4)
    panels[0].set(ylabel="L (nats)", ylim=(-11 / 40, 11))
    panels[2].set(ylabel="L / mu", ylim=(-7 / 40, 7))
    figures.legend(figure, panels[0])
    return figure, {"ghm", "ghm_regression"}


def weights_and_masks(points: int) -> tuple[Figure, set[str]]:
    """What is no loss: weights by count, logits adjusted afterwards, mined elements."""
    figure, (weighing, adjusting, mining) = figures.panels(1, 3, width=9.6)
    names = ("log_ratio", "inverse", "inverse_square_root", "effective_number")
    total = 1e4
    counts = np.geomspace(1, 0.9 * total, points)
    for index, name in enumerate(names):
        weigh = getattr(class_weights, name)
        weights = weigh(np.stack([total - counts, counts], axis=-1))[:, 1]
        weighing.plot(counts, weights, **figures.style(index), label=name)
    weighing.set(
        title="class_weights of one of two classes",
        xlabel=f"its count, of {total:,.0f}",
        ylabel="its weight",
        xscale="log",
        yscale="log",
    )
    weighing.legend(loc="lower left")

    p = jnp.asarray(probabilities(points))
    pairs = jnp.stack([jnp.zeros(points), logit(p)], axis=-1)
    for index, tau in enumerate((0.0, 0.5, 1.0)):
        adjusted = losses.adjust_logits(pairs, class_counts=jnp.array(COUNTS), tau=tau)
        look = REFERENCE if tau == 0 else figures.style(index)
        after = jax.nn.softmax(adjusted)[:, 1]
        adjusting.plot(p, after, **look, label=f"tau={tau:g}")
    adjusting.set(
        title=f"adjust_logits, counts {COUNTS[0]:.0f} and {COUNTS[1]:.0f}",
        xlabel="p of the rare class, before",
        ylabel="after",
    )
    adjusting.legend(loc="lower right")

    size = 30
    z = logit((jnp.arange(size) + 0.5) / size)
    labels = (jnp.arange(size) % 8 == 3).astype(int)
    scores = losses.cross_entropy(z, labels, class_axis=None)
    selected = losses.hard_negative_mask(
        scores, labels == 1, negatives_per_positive=2.0
    )
    for mask, marker, color, text in (
        (labels == 1, "D", COLORS[0], "positive"),
        (selected & (labels == 0), "o", COLORS[1], "negative, kept"),
        (~selected, "x", COLORS[6], "negative, left out"),
    ):
        place = np.flatnonzero(mask)
        mining.plot(
            jax.nn.sigmoid(z)[place],
            scores[place],
            marker,
            color=color,
            markersize=4.5,
            label=text,
        )
    mining.set(
        title="hard_negative_mask, ratio 2",
        xlabel=OF_POSITIVE,
        ylabel="score: cross-entropy (nats)",
    )
    mining.legend(loc="upper center")
    functions = {f"class_weights.{name}" for name in names}
    return figure, functions | {"adjust_logits", "hard_negative_mask"}


FAMILIES = (
    cross_entropy,
    priors,
    dice,
    dice_semimetric,
    tversky,
    f1,
    self_adjusting_dice,
    multi_label,
    ghm,
    weights_and_masks,
)


# What varies


def _of_labels(loss: Callable) -> Callable:
    """One element that has label 0 of SIZE, by the logit of label `varied`."""
    labels = jnp.zeros((1, SIZE), int).at[0, 0].set(1)
    others = logit(jnp.full((1, SIZE), NEGATIVE_P).at[0, 0].set(POSITIVE_P))

    def value(z, varied):
        entry = loss(others.at[0, varied].set(z), labels)[0]
        return entry[varied] if entry.ndim else entry

    return value


SOFT_LABEL = 0.7


def _of_soft_set(loss: Callable) -> Callable:
    """A set by the logit of its element of a soft label; the others right, or not."""
    labels = jnp.zeros(SIZE).at[0].set(SOFT_LABEL)

    def value(z, varied):
        others = jnp.where(varied == 0, -30.0, logit(jnp.array(NEGATIVE_P)))
        logits = jnp.full(SIZE, others).at[0].set(z)
        return loss(logits, labels, class_axis=None)

    return value


# How it is drawn


def _set_figure(points: int, curves: Sequence[LossCurve]) -> tuple[Figure, set[str]]:
    titles = {0: "the positive varies", 1: "one of 19 negatives varies"}
    figure, names = _draw(curves, points, titles, loss="L of the set")
    for axes in figure.axes[1::2]:
        axes.axhline(0, **REFERENCE)
    return figure, names


def _draw(
    curves: Sequence[LossCurve], points: int, titles: dict[int, str], **words: Any
) -> tuple[Figure, set[str]]:
    options = {"points": points, "varied": titles, "mark_best": False}
    names = {label.partition(",")[0] for label, _ in curves}
    return draw_losses(curves, **options, **words), names


def main() -> None:
    """Reads the command line and draws."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent)
    parser.add_argument("--points", type=int, default=64)
    parser.add_argument("--format", choices=("svg", "png"), default="svg")
    arguments = parser.parse_args()
    drawn = draw(arguments.folder, arguments.points, arguments.format)
    for name, functions in drawn.items():
        print(f"{name}: {', '.join(sorted(functions))}")


if __name__ == "__main__":
    main()
