"""Tables of the test examples whose answers a loss changes."""

from __future__ import annotations

from dicejax.study.compare.changed import (
    compared_pair,
    gain_of,
    most_changed,
    right_of,
)
from dicejax.study.compare.record import Comparison
from dicejax.study.report.document import Lines, Section
from dicejax.study.sentences import sentences


def changed_answers(comparison: Comparison) -> Section:
    """Return tables of gains and of losses; empty where no answer changes."""
    key, title = "changed", "Changed answers"
    pair, quoted = compared_pair(comparison), comparison.quoted
    if pair is None or not (gain := gain_of(pair)).any():
        return Section(key, title)
    (first, right, runs), (best, better, best_runs) = (
        (row, *right_of(row)) for row in pair
    )
    names = first.runs[0].names
    tables: dict[str, Lines] = {}
    for sign, places in most_changed(gain).items():
        lines = []
        for n in places:
            number = f"{n + 1}"
            line = {"test example": number if names is None else str(names[n])}
            cells = quoted.texts.get(number, ())
            line |= dict(zip(("text", "gold"), cells, strict=False))
            for row in pair:
                if number in quoted.predicted.get(row.loss, {}):
                    text = quoted.predicted[row.loss][number]
                    line[f"{row.loss} predicted"] = text
            line[f"{first.loss} right"] = f"{right[n]} of {runs}"
            line[f"{best.loss} right"] = f"{better[n]} of {best_runs}"
            lines.append(line)
        if lines:
            which = "more" if sign > 0 else "less"
            caption = f"{best.loss} is right {which} often than {first.loss}"
            tables[caption] = lines
    up, down = int((gain > 0).sum()), int((gain < 0).sum())
    summary = sentences("page").changed(
        loss=best.loss,
        baseline=first.loss,
        up=up,
        down=down,
        cancels=min(up, down) > 0.8 * max(up, down),
        has_predictions=bool(quoted.predicted),
        has_names=bool(quoted.texts) or names is not None,
    )
    return Section(key, title, [summary], tables)
