"""What tuning chose for each loss, and what dev gained by it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dicejax.comparison.report.document import Section, Table
from dicejax.metrics.scores import heading


def tuning_section(tuning: Mapping[str, Any] | None) -> Section:
    """Show a tuning, as `tuning.json` has it; nothing where there was none."""
    title = {"key": "tuning", "title": "Tuning"}
    if tuning is None:
        return Section(**title)
    score = f"dev {heading(tuning['primary_metric'])}"
    return Section(
        **title,
        text=(
            f"Before the comparison each loss had {tuning['trials']} trials of its "
            "learning rate and of its own numbers, with a seed that no run here has, "
            "and the best on dev was taken. The test split was not looked at. Gains on "
            "dev are of one seed, chosen as the best of many: they are no result.",
        ),
        tables=(
            Table(
                caption="What was chosen on dev, in percent",
                columns=("loss", "chosen", score, f"{score} as given", "diverged"),
                rows=tuple(
                    (loss, *_cells(one))
                    for loss, one in sorted(tuning["losses"].items())
                ),
            ),
        ),
    )


def _cells(one: Mapping[str, Any]) -> list[str]:
    best, first = one["trials"][one["chosen"]], one["trials"][0]
    values = [
        f"{path.partition('.')[2]} {value:g}" for path, value in best["values"].items()
    ]
    chosen = ", ".join(values) + (" (as given)" if best is first else "")
    diverged = sum(trial["dev"] is None for trial in one["trials"])
    return [chosen, _percent(best["dev"]), _percent(first["dev"]), str(diverged)]


def _percent(dev: float | None) -> str:
    return "diverged" if dev is None else f"{100 * dev:.2f}"
