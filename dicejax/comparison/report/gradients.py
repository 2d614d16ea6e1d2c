"""Pictures of gradients, of runs that were trained with `--analysis.every`."""

from __future__ import annotations

from collections.abc import Sequence

from etils import epath

from dicejax.analysis.gradients.plot import svgs_of_run
from dicejax.comparison.report.document import Drawing
from dicejax.comparison.statistics import Row
from dicejax.training.gradients.collector import FILE

CAPTIONS = {
    "density": "where gradients come from: how wrong elements are, and what share of "
    "the gradient they have",
    "norms": "how long the gradients of elements are, early and late",
    "shares": "the share of the gradient that each class has, beside its frequency",
    "agreement": "how well the gradient points where that of F1 of the data set points",
    "alarms": "elements that are wrong and no longer learnt from",
}


def drawings_of(rows: Sequence[Row]) -> list[Drawing]:
    """Draw the gradients of the first run of each loss in which they were looked at.

    Args:
      rows: of a comparison.

    Raises:
      InputError: a run's record is damaged, or Matplotlib is missing.
    """
    drawings = []
    for row in rows:
        looked_at = [
            one
            for one in row.outcomes
            if one.result is not None
            and "control" not in one.result  # the run is that of the baseline
            and (epath.Path(one.folder) / FILE).exists()
        ]
        for one in looked_at[:1]:
            for name, svg in svgs_of_run(one.folder).items():
                title = f"{row.loss}, seed {one.seed}: {name}"
                told = CAPTIONS[name.rpartition("-")[2]]
                drawings.append(Drawing(title=title, caption=told, svg=svg))
    return drawings
