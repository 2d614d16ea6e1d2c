"""Draws what `docs/losses.md` shows: every loss and its slope, one figure per family.

    python docs/figures/losses.py [--folder FOLDER] [--points N] [--format svg]

Every value comes from calling `dicejax.losses`, every slope from `jax.grad`. The same
version of Matplotlib draws the same bytes each time.
"""

import argparse
import dataclasses
import functools
from collections.abc import Callable, Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib as mpl
import numpy as np
from jax import Array
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dicejax import losses
from dicejax.losses import class_weights

# Mid tones: they stand on a white page and on a dark one. Okabe and Ito's palette, told
# apart by line style too.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#C79A00", "#7F7F7F")
STYLES = ("-", "--", "-.", (0, (1, 1.3)), (0, (6, 1.5, 1, 1.5, 1, 1.5)), (0, (8, 2)))
INK = "#767676"
REFERENCE = {"color": "#8C8C8C", "linestyle": "-", "linewidth": 0.9}

SETTINGS = {
    "svg.hashsalt": "dicejax",
    "svg.fonttype": "path",
    "font.size": 9,
    "axes.titlesize": 9.5,
    "legend.fontsize": 8,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "axes.titlecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": INK,
    "grid.alpha": 0.22,
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.7,
    "legend.frameon": False,
    "path.simplify_threshold": 0.3,
}

P = "p of the gold class"
OF_POSITIVE = "p, that it is a positive"
SLOPE = "dL/dz, z the gold logit"
OWN_SLOPE = "dL/dz, z its logit"

# The set that the pictures of set losses vary: one positive among negatives.
SIZE = 20
NEGATIVE_P = 0.1
POSITIVE_P = 0.5

# How often the classes of the pictures occur: of label 0, of label 1.
COUNTS = (900.0, 100.0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Curve:
    """One line of a picture.

    Attributes:
      name: the public function it shows, as the table calls it.
      value: the loss as a function of a logit and of what varies, an integer.
      label: what the legend says.
      reference: whether it is there for comparison only, thin and grey.
    """

    name: str
    value: Callable[[Array, Array], Array]
    label: str
    reference: bool = False


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
    with mpl.rc_context(SETTINGS):
        for family in FAMILIES:
            figure, names = family(points)
            path = folder / f"{family.__name__}.{kind}"
            metadata = {"Date": None} if kind == "svg" else {}
            figure.savefig(path, transparent=kind == "svg", metadata=metadata, dpi=110)
            drawn[path.name] = names
    return drawn


# Families


def cross_entropy(points: int) -> tuple[Figure, set[str]]:
    """One element, binary form, label 1."""
    of = functools.partial(_curve, setting=_element)
    curves = [
        of("cross_entropy", reference=True),
        of("cross_entropy", label="label_smoothing=0.1", label_smoothing=0.1),
        of("poly", label="epsilon=1"),
        of("poly", label="epsilon=-1", epsilon=-1.0),
        of("focal", label="gamma=2"),
        of("majority_or_minority", label="a minority, weight=0.5"),
    ]
    figure, panels = _figure(1, 2)
    _rows(panels, curves, points, {1: ""})
    _describe(panels, x=P, loss="L (nats)", slope=SLOPE, top=4.0)
    _legend(figure, panels[0])
    return figure, _names(curves)


def priors(points: int) -> tuple[Figure, set[str]]:
    """One element, binary form, of the rare and of the frequent label."""
    of = functools.partial(_curve, setting=_element)
    counts = jnp.array(COUNTS)
    curves = [
        of("cross_entropy", reference=True),
        of("logit_adjusted", label="tau=1", class_counts=counts),
        of("ldam", label="max_margin=0.5", class_counts=counts),
        of("vs", label="tau=1, gamma=0.15", class_counts=counts),
        of("vs", label="tau=0, gamma=0.15", class_counts=counts, tau=0.0),
    ]
    titles = {
        label: f"gold class has {COUNTS[label] / sum(COUNTS):.0%} of the elements"
        for label in (1, 0)
    }
    figure, panels = _figure(2, 2)
    _rows(panels, curves, points, titles)
    _describe(panels, x=P, loss="L (nats)", slope=SLOPE, top=6.0)
    _legend(figure, panels[0])
    return figure, _names(curves)


def dice(points: int) -> tuple[Figure, set[str]]:
    """A set of one positive and 19 negatives."""
    of = functools.partial(_curve, setting=_of_set)
    return _set_figure(
        points,
        [
            of("dice", label="smooth=1"),
            of("dice", label="smooth=0.01", smooth=0.01),
            of("dice", label="squared", squared=True),
            of("dice", label="squared, axis=() (eq. 7)", squared=True, axis=()),
            of("log_cosh_dice", label="smooth=1"),
            of("generalized_dice", label="both classes"),
        ],
    )


def dice_semimetric(points: int) -> tuple[Figure, set[str]]:
    """A set of one element of a soft label, then the same among wrong ones."""
    of = functools.partial(_curve, setting=_of_soft_set)
    curves = [
        of("dice"),
        of("dice_semimetric", label="dml1", variant="dml1"),
        of("dice_semimetric", label="dml2", variant="dml2"),
    ]
    figure, panels = _figure(2, 2)
    titles = {0: "the others are right", 1: "each other has p = 0.1"}
    _rows(panels, curves, points, titles)
    _describe(panels, x=OF_POSITIVE, loss="L of the set", slope=OWN_SLOPE)
    for axes in panels:
        axes.axvline(SOFT_LABEL, **REFERENCE)
    _legend(figure, panels[0])
    return figure, _names(curves)


def tversky(points: int) -> tuple[Figure, set[str]]:
    """The set of `dice`, with false positives and false negatives weighed apart."""
    of = functools.partial(_curve, setting=_of_set)
    return _set_figure(
        points,
        [
            of("tversky", label="alpha=0.5, beta=0.5"),
            of("tversky", label="alpha=0.3, beta=0.7", alpha=0.3, beta=0.7),
            of("focal_tversky", label="alpha=0.3, beta=0.7"),
            of("jaccard"),
            of("unified_focal", label="asymmetric"),
            of("unified_focal", label="symmetric", variant="symmetric"),
        ],
    )


def f1(points: int) -> tuple[Figure, set[str]]:
    """The set of `dice`, scored as evaluation scores it."""
    of = functools.partial(_curve, setting=_of_set)
    entities = {"exclude_class": 0}
    return _set_figure(
        points,
        [
            of("soft_f1", label="macro"),
            of("soft_f1", label="without class 0", **entities),
            of("soft_f1", label="without class 0, beta=2", beta=2.0, **entities),
            of("sigmoid_f1", label="slope=1", class_axis=None),
            of("sigmoid_f1", label="slope=4", class_axis=None, slope=4.0),
            of("lovasz_softmax", label="class 1"),
        ],
    )


def self_adjusting_dice(points: int) -> tuple[Figure, set[str]]:
    """One element: where positives stop, the paper's Figure 1, and negatives."""
    name = "self_adjusting_dice"
    p = _probabilities(2 * points)
    figure, (loss, figure_1, slope, negative) = _figure(2, 2)
    for index, alpha in enumerate((0.0, 0.01, 0.1, 0.5, 1.0)):
        look = _style(index)
        dot = {"marker": "o", "color": look["color"], "markersize": 5}
        of = functools.partial(_curve, name, alpha=alpha)
        values, slopes = _evaluate(of(setting=_element), p, [0, 1])
        best = _crossing(p, slopes[1])
        text = f"alpha={alpha:g}"
        if best is not None:
            loss.plot(best, np.interp(best, p, values[1]), **dot)
            slope.plot(best, 0, **dot)
            text += f": p* = {best:.2f}"
        loss.plot(p, values[1], **look, label=text)
        slope.plot(p, slopes[1], **look)
        negative.plot(1 - p, values[0], **look)

        if alpha in (0.0, 1.0):
            # L = 1 - 2f / (f + 1), so -dL/dp / 2 is the derivative of f / (1 + f).
            unsmoothed = of(setting=_element, smooth=0.0)
            derivative = -_evaluate(unsmoothed, p, [1])[1][0] / (p * (1 - p)) / 2
            figure_1.plot(p, derivative, **look)
            best = _crossing(p, derivative)
            if best is not None:
                figure_1.plot(best, 0, **dot)

    stopped = of(setting=_element, stop_gradient_weight=True)
    look = {"color": COLORS[5], "linestyle": STYLES[5]}
    text = "alpha=1, stop_gradient_weight"
    slope.plot(p, _evaluate(stopped, p, [1])[1][0], **look, label=text)

    for axes in (loss, figure_1, slope):
        axes.set_xlabel(P)
    loss.set(title="positive: loss", ylabel="L (smooth=1)")
    figure_1.set(
        title="positive: the paper's Figure 1 (smooth=0)",
        ylabel="d/dp of f / (1 + f) = -½ dL/dp",
    )
    slope.set(title="positive: slope", ylabel="dL/dz (smooth=1)")
    negative.set(
        title="negative, a set of its own: loss",
        xlabel=OF_POSITIVE,
        ylabel="L (smooth=1)",
    )
    for axes in (figure_1, slope):
        axes.axhline(0, **REFERENCE)
    _legend(figure, loss, slope)
    return figure, {name}


def multi_label(points: int) -> tuple[Figure, set[str]]:
    """One element with one label of 20: its entry varies, then one of the others."""
    of = functools.partial(_curve, setting=_of_labels)
    frequencies = {
        "positives": jnp.full(SIZE, COUNTS[1]),
        "total": 100 * COUNTS[1],
    }
    curves = [
        of("cross_entropy", multi_label=True, reference=True),
        of("asymmetric", label="margin=0.05"),
        of("asymmetric", label="margin=0", margin=0.0),
        of("zlpr"),
        of("distribution_balanced", **frequencies),
    ]
    figure, panels = _figure(2, 2)
    titles = {0: "a label that it has", 1: "a label that it lacks"}
    _rows(panels, curves, points, titles)
    _describe(panels, x="p of the label", loss="L (nats)", slope=OWN_SLOPE, top=4.0)
    _legend(figure, panels[0])
    return figure, _names(curves)


def ghm(points: int) -> tuple[Figure, set[str]]:
    """A crowd of easy elements, few hard ones and a clump of outliers."""
    rising = (jnp.arange(4 * points) + 0.5) / (4 * points)
    norms = jnp.sort(jnp.concatenate([rising**5, 1 - 0.05 * rising[::8]]))
    z = _logit(1 - norms)
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

    figure, panels = _figure(2, 2)
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
            look = REFERENCE if bins == 1 else _style(0)
            text = "one bin: nothing harmonised" if bins == 1 else "ten bins"
            for axes, line in ((left, values), (right, slopes)):
                x_of_line, line = (
                    np.insert(np.asarray(one, float), gaps, np.nan) for one in (x, line)
                )
                axes.plot(x_of_line, line, **look, label=text)
        left.set_title(f"{function.__name__}: loss")
        right.set_title(f"{function.__name__}: slope")
    _describe(panels[:2], x=P, loss="L (nats)", slope=SLOPE, top=11.0)
    _describe(
        panels[2:],
        x="|prediction - target| / mu",
        loss="L / mu",
        slope="dL/dprediction",
        top=7.0,
    )
    for axes in panels[2:]:
        axes.set_xlim(-0.1, 4)
    _legend(figure, panels[0])
    return figure, {"ghm", "ghm_regression"}


def weights_and_masks(points: int) -> tuple[Figure, set[str]]:
    """What is no loss: weights by count, logits adjusted afterwards, mined elements."""
    figure, (weighing, adjusting, mining) = _figure(1, 3, width=9.6)
    names = ("log_ratio", "inverse", "inverse_square_root", "effective_number")
    total = 1e4
    counts = np.geomspace(1, 0.9 * total, points)
    for index, name in enumerate(names):
        weigh = getattr(class_weights, name)
        weights = weigh(np.stack([total - counts, counts], axis=-1))[:, 1]
        weighing.plot(counts, weights, **_style(index), label=name)
    weighing.set(
        title="class_weights of one of two classes",
        xlabel=f"its count, of {total:,.0f}",
        ylabel="its weight",
        xscale="log",
        yscale="log",
    )
    weighing.legend(loc="lower left")

    p = jnp.asarray(_probabilities(points))
    pairs = jnp.stack([jnp.zeros(points), _logit(p)], axis=-1)
    for index, tau in enumerate((0.0, 0.5, 1.0)):
        adjusted = losses.adjust_logits(pairs, class_counts=jnp.array(COUNTS), tau=tau)
        look = REFERENCE if tau == 0 else _style(index)
        after = jax.nn.softmax(adjusted)[:, 1]
        adjusting.plot(p, after, **look, label=f"tau={tau:g}")
    adjusting.set(
        title=f"adjust_logits, counts {COUNTS[0]:.0f} and {COUNTS[1]:.0f}",
        xlabel="p of the rare class, before",
        ylabel="after",
    )
    adjusting.legend(loc="lower right")

    size = 30
    z = _logit((jnp.arange(size) + 0.5) / size)
    labels = (jnp.arange(size) % 8 == 3).astype(int)
    scores = losses.cross_entropy(z, labels, class_axis=None)
    kept = losses.hard_negative_mask(scores, labels == 1, negatives_per_positive=2.0)
    for shown, marker, color, text in (
        (labels == 1, "D", COLORS[0], "positive"),
        (kept & (labels == 0), "o", COLORS[1], "negative, kept"),
        (~kept, "x", COLORS[6], "negative, left out"),
    ):
        place = np.flatnonzero(shown)
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
    shown = {f"class_weights.{name}" for name in names}
    return figure, shown | {"adjust_logits", "hard_negative_mask"}


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


def _curve(
    name: str,
    setting: Callable,
    label: str = "",
    reference: bool = False,
    **keywords,
) -> Curve:
    function = functools.partial(getattr(losses, name), **keywords)
    return Curve(
        name=name,
        value=setting(function),
        label=f"{name}, {label}" if label else name,
        reference=reference,
    )


def _element(loss: Callable) -> Callable:
    """One element, binary form, of label `varied`, by its gold logit."""

    def value(z, varied):
        return loss((2 * varied - 1) * z, varied, class_axis=None)

    return value


def _of_labels(loss: Callable) -> Callable:
    """One element that has label 0 of SIZE, by the logit of label `varied`."""
    labels = jnp.zeros((1, SIZE), int).at[0, 0].set(1)
    others = _logit(jnp.full((1, SIZE), NEGATIVE_P).at[0, 0].set(POSITIVE_P))

    def value(z, varied):
        entry = loss(others.at[0, varied].set(z), labels)[0]
        return entry[varied] if entry.ndim else entry

    return value


def _of_set(loss: Callable) -> Callable:
    """A set whose element 0 is positive, by the logit of element `varied`.

    A loss per class tells that of class 1; one per element, their mean.
    """
    labels = jnp.zeros(SIZE, int).at[0].set(1)
    others = _logit(jnp.full(SIZE, NEGATIVE_P).at[0].set(POSITIVE_P))

    def value(z, varied):
        logits = others.at[varied].set(z)
        if "class_axis" in loss.keywords:
            return loss(logits, labels)
        result = loss(jnp.stack([jnp.zeros(SIZE), logits], axis=-1), labels)
        if loss.keywords.get("axis", None) == ():
            result = jnp.mean(result, axis=0)
        return result[1] if result.ndim else result

    return value


SOFT_LABEL = 0.7


def _of_soft_set(loss: Callable) -> Callable:
    """A set by the logit of its element of a soft label; the others right, or not."""
    labels = jnp.zeros(SIZE).at[0].set(SOFT_LABEL)

    def value(z, varied):
        others = jnp.where(varied == 0, -30.0, _logit(jnp.array(NEGATIVE_P)))
        logits = jnp.full(SIZE, others).at[0].set(z)
        return loss(logits, labels, class_axis=None)

    return value


def _probabilities(points: int) -> np.ndarray:
    """P from nearly 0 to nearly 1, denser at both ends."""
    return (1 - np.cos(np.pi * (np.arange(points) + 0.5) / points)) / 2


def _logit(p: Array) -> Array:
    return jnp.log(p) - jnp.log1p(-p)


def _evaluate(
    curve: Curve, p: np.ndarray, varied: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Values and slopes `[len(varied), len(p)]`, in one compilation."""
    of_points = jax.vmap(jax.value_and_grad(curve.value), in_axes=(0, None))
    of_both = jax.jit(jax.vmap(of_points, in_axes=(None, 0)))
    values, slopes = of_both(_logit(jnp.asarray(p, jnp.float32)), jnp.array(varied))
    return np.asarray(values), np.asarray(slopes)


def _crossing(x: np.ndarray, y: np.ndarray) -> float | None:
    """Where a line first changes its sign, between two of its points."""
    places = np.flatnonzero(y[:-1] * y[1:] < 0)
    if not places.size:
        return None
    one = places[0]
    share = y[one] / (y[one] - y[one + 1])
    return float(x[one] + share * (x[one + 1] - x[one]))


# How it is drawn


def _set_figure(points: int, curves: Sequence[Curve]) -> tuple[Figure, set[str]]:
    figure, panels = _figure(2, 2)
    titles = {0: "the positive varies", 1: "one of 19 negatives varies"}
    _rows(panels, curves, points, titles)
    _describe(panels, x=OF_POSITIVE, loss="L of the set", slope=OWN_SLOPE)
    for axes in panels[1::2]:
        axes.axhline(0, **REFERENCE)
    _legend(figure, panels[0])
    return figure, _names(curves)


def _rows(
    panels: Sequence[Axes],
    curves: Sequence[Curve],
    points: int,
    titles: dict[int, str],
) -> None:
    """Draws a row, loss and slope, for each thing that varies."""
    p = _probabilities(points)
    index = 0
    for one in curves:
        look = REFERENCE if one.reference else _style(index)
        index += not one.reference
        values, slopes = _evaluate(one, p, list(titles))
        for row in range(len(titles)):
            panels[2 * row].plot(p, values[row], **look, label=one.label)
            panels[2 * row + 1].plot(p, slopes[row], **look)
    for row, title in enumerate(titles.values()):
        before = f"{title}: " if title else ""
        panels[2 * row].set_title(f"{before}loss")
        panels[2 * row + 1].set_title(f"{before}slope")


def _describe(
    panels: Sequence[Axes], x: str, loss: str, slope: str, top: float | None = None
) -> None:
    """Labels the axes of rows of loss and slope."""
    for axes in panels:
        axes.set_xlabel(x)
    for axes in panels[::2]:
        axes.set_ylabel(loss)
        if top is not None:
            axes.set_ylim(-top / 40, top)
    for axes in panels[1::2]:
        axes.set_ylabel(slope)


def _figure(rows: int, columns: int, width: float = 7.6) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(width, 2.75 * rows + 0.45), layout="constrained")
    panels = [
        figure.add_subplot(rows, columns, place + 1) for place in range(rows * columns)
    ]
    return figure, panels


def _style(index: int) -> dict:
    return {"color": COLORS[index], "linestyle": STYLES[index]}


def _legend(figure: Figure, *panels: Axes) -> None:
    """One legend of all lines, below the panels."""
    found = [axes.get_legend_handles_labels() for axes in panels]
    figure.legend(
        [one for handles, _ in found for one in handles],
        [one for _, labels in found for one in labels],
        loc="outside lower center",
        ncols=3,
        handlelength=3.2,
        columnspacing=1.4,
    )


def _names(curves: Sequence[Curve]) -> set[str]:
    return {one.name for one in curves}


def main() -> None:
    """Reads the command line and draws."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent)
    parser.add_argument("--points", type=int, default=64)
    parser.add_argument("--format", choices=("svg", "png"), default="svg")
    arguments = parser.parse_args()
    drawn = draw(arguments.folder, arguments.points, arguments.format)
    for name, shown in drawn.items():
        print(f"{name}: {', '.join(sorted(shown))}")


if __name__ == "__main__":
    main()
