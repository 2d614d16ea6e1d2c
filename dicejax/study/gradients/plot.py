"""Figures of a run's gradients: density, norms, shares, agreement, alarms."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np
from etils import epath

from dicejax.io.files import write_together
from dicejax.objectives import Objective
from dicejax.study import figures
from dicejax.study.gradients.agreement import PARTS
from dicejax.study.gradients.curves import draw_losses, of_objective
from dicejax.study.gradients.history import History, read, share
from dicejax.training.gradients.measures import FEWEST, NORM_BINS, NORM_DECADES
from dicejax.training.run_folder import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SETTINGS = figures.TITLED | {
    "axes.grid": True,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "lines.linewidth": 1.5,
}
_TIMES = 4  # parts of the training that have a density
_POINTS = 24  # parts of the training that are points of a line
_MOST = 6  # groups that have a line
_MOST_LISTED = 16
_GREY = "#9A9A9A"


def figures_of_run(folder: str) -> dict[str, Figure]:
    """Return `figures_of` a run that measured gradients, which may be unfinished.

    Raises:
      InputError: there is no run, or nothing was measured in it.
    """
    return figures_of(read(Run.at(folder)))


def figures_of(histories: tuple[History, ...]) -> dict[str, Figure]:
    """Return the figures of gradients by name; save them within `look`.

    Their names are those of `FIGURES`, with several outputs after the output's and a
    hyphen.
    """
    with look(histories):
        return dict(draw(histories))


def write(
    folder: str,
    objective: Objective,
    histories: tuple[History, ...],
    agreement: Mapping[str, Any] | None = None,
) -> list[str]:
    """Write the figures of a run as SVG and PNG, and return the names of all files.

    Raises:
      InputError: a file cannot be written.
    """
    with look(histories):
        drawn = [*draw(histories), ("loss", draw_losses([of_objective(objective)]))]
        if agreement is not None:
            drawn.append(("losses", draw_agreements(agreement["found"])))
        content = figures.files(drawn)
    if agreement is not None:
        text = json.dumps(agreement, indent=2) + "\n"
        content["losses.json"] = text.encode()
    write_together(epath.Path(folder), content)
    return list(content)


def look(histories: Iterable[History]) -> AbstractContextManager[None]:
    """Draw in the style of these figures, with fonts for all their names."""
    texts = [name for history in histories for name in history.groups.names]
    return figures.look(texts, SETTINGS)


def draw(histories: tuple[History, ...]) -> Iterator[tuple[str, Figure]]:
    """Yield each figure with its name."""
    for history in histories:
        before = f"{history.output}-" if len(histories) > 1 else ""
        for name, draw_figure in FIGURES.items():
            yield before + name, draw_figure(history)


def draw_density(history: History) -> Figure:
    """Draw densities of elements and of gradient by gradient norm, as in GHM."""
    sides = {"all classes": slice(None)}
    if history.groups.has_negative:
        sides = {"negatives": slice(0, 1), "positives": slice(1, None)}
    figure, panels = figures.panels(2, len(sides))
    for column, (side, groups) in enumerate(sides.items()):
        both = (("hardness", "elements"), ("hardness_norm", "gradient"))
        for axes, (key, name) in zip(panels[column :: len(sides)], both, strict=True):
            for label, color, when in _times(history):
                values = history.sums[key][when].sum(axis=0)
                shares = values[groups].sum(axis=0) / max(values.sum(), 1e-30)
                x = (np.arange(len(shares)) + 0.5) / len(shares)
                shares = np.where(shares > 0, shares, np.nan)
                axes.plot(x, shares, color=color, marker=".", label=label)
            axes.set(title=f"{side}: share of the {name}", yscale="log")
            axes.set(xlabel="how wrong: 1 - p of the own class", xlim=(0, 1))
    figures.legend(figure, panels[0], columns=_TIMES)
    return figure


def draw_norms(history: History) -> Figure:
    """Draw gradient norms of elements by group: easy and hard, early and late."""
    times = list(_times(history))
    times = [times[0], times[-1]] if len(times) > 1 else times
    figure, panels = figures.panels(2, len(times))
    low, high = NORM_DECADES
    x = low + (high - low) * (np.arange(NORM_BINS) + 0.5) / NORM_BINS
    for column, (label, _, when) in enumerate(times):
        for row, kind in enumerate(("easy", "hard")):
            axes = panels[column + row * len(times)]
            counts = history.sums["norms"][when].sum(axis=0)[:, row]
            for group, look in _looks(history):
                axes.plot(x, share(counts[group]), **look)
            axes.set(title=f"{kind}, {label}", xlabel="log10 of N ||dL/dz||")
            axes.set(ylabel=f"share of its {kind} elements", xlim=(low, high))
    figures.legend(figure, panels[0], columns=_MOST)
    return figure


def draw_shares(history: History) -> Figure:
    """Draw the share of the gradient that each class has vs. its frequency."""
    columns = 3 if history.kinds else 2
    figure, panels = figures.panels(1, columns, width=3.8 * columns, height=3.2)
    axes = panels[0]
    steps, parts = _parts(history)
    norm, count = (
        share(np.array([history.sums[key][part].sum(axis=0) for part in parts]))
        for key in ("gradient_norm", "count")
    )
    for group, look in _looks(history):
        axes.plot(steps, _ratio(norm[:, group], count[:, group]), **look)
    axes.axhline(1, **figures.REFERENCE)
    axes.set(title="gradient share / frequency", xlabel="step", yscale="log")
    _draw_frequency(panels[1], history)
    if history.kinds:
        _draw_kinds(panels[2], history)
    figures.legend(figure, panels[0], columns=_MOST)
    return figure


def _draw_frequency(axes: Axes, history: History) -> None:
    frequency, norm = history.share_of_elements(), history.share_of_gradient()
    order = np.argsort(-frequency, kind="stable")
    listed = [int(group) for group in order if frequency[group] > 0][:_MOST_LISTED]
    y = range(len(listed))
    parts = ("elements", frequency, _GREY), ("gradient", norm, figures.COLORS[0])
    for name, values, color in parts:
        dots = np.where(values[listed] > 0, values[listed], np.nan)
        axes.plot(dots, y, "o", color=color, label=f"of the {name}")
    axes.hlines(y, frequency[listed], norm[listed], color=_GREY, linewidth=0.8)
    names = [figures.plain(history.groups.names[group]) for group in listed]
    axes.set_yticks(y, names, size=8)
    axes.invert_yaxis()
    axes.set(title="whole training", xlabel="share", xscale="log")
    axes.legend(loc="lower right")


def _draw_kinds(axes: Axes, history: History) -> None:
    kinds = list(history.kinds)
    for offset, key, color, label in (
        (-0.2, "places", _GREY, "of the places"),
        (0.2, "gradient_norm", figures.COLORS[0], "of the gradient"),
    ):
        sums = np.array([history.kinds[kind][key].sum() for kind in kinds])
        y = np.arange(len(kinds)) + offset
        axes.barh(y, share(sums), 0.38, color=color, label=label)
    axes.set_yticks(range(len(kinds)), kinds)
    axes.invert_yaxis()
    axes.set(title="kinds of pieces", xlabel="share", xlim=(0, 1))
    axes.legend(loc="lower right")


def draw_agreement(history: History) -> Figure:
    """Draw the cosine between the gradients of loss and soft F1, and soft F1 itself."""
    figure, (near, scores) = figures.panels(1, 2, height=3.0)
    for average, color in zip(history.cosine, figures.COLORS, strict=False):
        label, of_heads = f"{average} F1", history.cosine_heads[average]
        near.plot(history.steps, history.cosine[average], color=color, label=label)
        label += ", of the head's parameters"
        near.plot(history.steps, of_heads, "--", color=color, label=label)
        scores.plot(history.steps, history.soft_f1[average], color=color)
    near.axhline(0, **figures.REFERENCE)
    near.set(title="cosine of the gradients of loss and soft F1", xlabel="step")
    near.set_ylim(min(-0.1, near.get_ylim()[0]), 1.02)
    scores.set(title="soft F1 of the last batches looked at", xlabel="step")
    scores.set_ylim(0, 1.02)
    figures.legend(figure, near, columns=2)
    return figure


def draw_alarms(history: History) -> Figure:
    """Draw the share of each group's hard elements that is dead or saturated."""
    figure, panels = figures.panels(1, 3, width=11, height=3.0)
    steps, parts = _parts(history)
    for group, look in _looks(history):
        count, hard, *kinds = (
            np.array([history.sums[key][part, group].sum() for part in parts])
            for key in ("count", "hard", "dead", "saturated")
        )
        panels[0].plot(steps, _ratio(hard, count), **look)
        hard = np.where(hard >= FEWEST, hard, 0)  # too few raise no alarm either
        for axes, kind in zip(panels[1:], kinds, strict=True):
            axes.plot(steps, _ratio(kind, hard), marker=".", **look)
    panels[0].set(title="hard: h of a half or more", ylabel="share of the elements")
    panels[1].set(title="dead: under 1% of cross-entropy's", ylabel="share of the hard")
    panels[2].set(title="saturated: h over 0.999", ylabel="share of the hard")
    for axes in panels:
        axes.set(xlabel="step", ylim=(-0.02, 1.02))
    figures.legend(figure, panels[0], columns=_MOST)
    return figure


def draw_agreements(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """Draw the agreement of several losses with soft F1, at one checkpoint."""
    several = len({row["output"] for row in rows}) > 1
    height, (color, other) = 0.9 + 0.28 * len(rows), figures.COLORS[:2]
    figure, panels = figures.panels(1, 2, width=8.6, height=height)
    y = np.arange(len(rows))
    for axes, key in zip(panels, PARTS, strict=True):
        values = [row[key] for row in rows]
        means, spreads = np.mean(values, axis=1), np.std(values, axis=1)
        axes.barh(y, means, 0.6, xerr=spreads, color=color, label="one batch")
        axes.axvline(0, **figures.REFERENCE)
        axes.set(ylim=(len(rows) - 0.4, -0.6), xlabel="cosine with soft F1")
    panels[0].set_title("gradient of the logits")
    panels[1].set_title("gradient of the head's parameters")
    marks = [row["heads_of_all"] for row in rows]
    panels[1].plot(marks, y, "D", color=other, label="all batches")
    outputs = [f"{row['output']}, " * several for row in rows]
    names = [
        f"{x['loss']}: {output}{x['average']}"
        for x, output in zip(rows, outputs, strict=True)
    ]
    panels[0].set_yticks(y, map(figures.plain, names))
    panels[1].set_yticks(y, [""] * len(rows))
    figures.legend(figure, panels[1])
    return figure


FIGURES = {
    "density": draw_density,
    "norms": draw_norms,
    "shares": draw_shares,
    "agreement": draw_agreement,
    "alarms": draw_alarms,
}


def _looks(history: History) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the negative group and the most frequent others, with style and label."""
    order = np.argsort(-history.sums["count"].sum(axis=0), kind="stable")
    first = [0] if history.groups.has_negative else []
    rest = [int(group) for group in order if int(group) not in first]
    for index, group in enumerate((first + rest)[:_MOST]):
        label = figures.plain(history.groups.names[group])
        yield group, figures.style(index) | {"label": label}


def _times(history: History) -> Iterator[tuple[str, tuple[float, ...], np.ndarray]]:
    """Yield parts of the training with a name and a colour, from dark to light."""
    from matplotlib import colormaps

    steps = history.steps
    number = min(_TIMES, len(steps))
    for index, part in enumerate(np.array_split(np.arange(len(steps)), number)):
        first, last = steps[part[0]], steps[part[-1]]
        label = f"step {first}" if first == last else f"steps {first} to {last}"
        yield label, colormaps["viridis"](0.25 + 0.6 * index / max(number - 1, 1)), part


def _parts(history: History) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the mean step of each part of the training, and indices of its records."""
    number = min(_POINTS, len(history.steps))
    parts = np.array_split(np.arange(len(history.steps)), number)
    return np.array([history.steps[part].mean() for part in parts]), parts


def _ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """Divide, with NaN where the denominator is 0."""
    return np.where(below > 0, above / np.where(below > 0, below, 1), np.nan)
