"""The figures of a run as files and as SVG texts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from dicejax.analysis import figures
from dicejax.analysis.gradients.agreement import Agreements
from dicejax.analysis.gradients.curves import of_objective
from dicejax.analysis.gradients.figures_of_run import (
    FIGURES,
    SETTINGS,
    draw_agreements,
)
from dicejax.analysis.gradients.history import History, read
from dicejax.analysis.gradients.landscape import draw_losses
from dicejax.objectives import Objective
from dicejax.training.run_folder import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = ("svg", "png")


def svgs_of_run(folder: str) -> dict[str, str]:
    """Return the figures of what was measured in a run, to be put into a page.

    Args:
      folder: of a run that was trained with `--analysis.every`, finished or not.

    Returns:
      SVG elements by the name of the figure: "density", "norms", "shares", "agreement"
      and "alarms"; of several outputs with the output's name and a hyphen in front.

    Raises:
      InputError: there is no run, nothing was measured in it, or Matplotlib is missing.
    """
    figures.require_matplotlib("a figure")
    histories = read(Run.at(folder))
    with look(histories):
        return {
            name: as_element(figures.rendered(figure, "svg"))
            for name, figure in drawn(histories)
        }


def write(
    folder: str,
    objective: Objective,
    histories: tuple[History, ...],
    agreements: Agreements | None = None,
) -> list[str]:
    """Write the figures of a run as SVG and PNG, and return the names of all files.

    Args:
      folder: made if it does not exist; what it has of these names is replaced.
      objective: of the run, drawn over probability.
      histories: what was measured in it.
      agreements: of losses, if they were compared; written as losses.json too.

    Raises:
      InputError: a file cannot be written.
    """
    path = figures.make_folder(folder)
    with look(histories):
        content = files_of(drawn(histories))
        content |= files_of([("loss", draw_losses([of_objective(objective)]))])
        if agreements is not None:
            content |= files_of([("losses", draw_agreements(agreements))])
            text = json.dumps(agreements.to_json(), indent=2) + "\n"
            content["losses.json"] = text.encode()
    figures.write(path, content)
    return list(content)


def files_of(named: Iterable[tuple[str, Figure]]) -> dict[str, bytes]:
    """Return the files of figures by name; call it within `look`."""
    return {
        f"{name}.{kind}": figures.rendered(figure, kind)
        for name, figure in named
        for kind in KINDS
    }


def look(histories: Iterable[History]) -> AbstractContextManager[None]:
    """Draw with the settings of these figures, and all characters of their names."""
    texts = [name for history in histories for name in history.groups.names]
    return figures.look(texts, SETTINGS)


def drawn(histories: tuple[History, ...]) -> Iterator[tuple[str, Figure]]:
    """Yield each figure with its name."""
    for history in histories:
        before = f"{history.output}-" if len(histories) > 1 else ""
        for name, draw in FIGURES.items():
            yield before + name, draw(history)


def as_element(svg: bytes) -> str:
    """Return an SVG as a page with several takes it: without what precedes its root.

    Names that Matplotlib counts up, of which no use is made, would stand there twice;
    those that are used are made of what they name.

    >>> as_element(b'<?xml version="1.0"?><svg><g id="axes_1"/><g id="p0a"/></svg>')
    '<svg><g/><g id="p0a"/></svg>'
    """
    text = svg.decode()
    return re.sub(r' id="[A-Za-z0-9.]+_\d+"', "", text[text.index("<svg") :])
