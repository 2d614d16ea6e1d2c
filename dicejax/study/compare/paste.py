r"""Texts to paste into a paper: a methods paragraph and a LaTeX table."""

from __future__ import annotations

from collections.abc import Sequence

import dicejax
from dicejax.metrics.scores import heading
from dicejax.study.compare.statistics import LEVEL, Look, Row, results_of
from dicejax.study.compare.table import baseline_name
from dicejax.study.significance import signed

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    **{one: f"\\{one}" for one in "&%$#_{}"},
}


def methods(rows: Sequence[Row], margin: float, looks: Sequence[Look]) -> str:
    """Return a paragraph on the statistics of a comparison."""
    rivals = [row for row in rows if row.against and not row.is_control]
    finished = [one for row in rows for one in row.outcomes if one.result]
    metric = heading(finished[0].result["primary_metric"])
    sizes = sorted({row.summary.n for row in rows})
    seeds = f"{sizes[0]} to {sizes[-1]}" if len(sizes) > 1 else f"{sizes[0]}"
    examples = len(finished[0].example_statistics)
    baseline = baseline_name(rows[0].loss)
    at = sorted({len(one) for look in looks for one in look.values()})
    looked = f" at {', '.join(map(str, at))} seeds" if at else ""
    return (
        f"We compared {len(rivals)} losses with {baseline} by {metric} on the test "
        f"set ({examples:,} examples), over {seeds} seeds. Runs of a loss and of "
        f"{baseline} were paired by seed, with seeds crossed with examples: the "
        "variance of the mean difference is that of a two-way random effects model, by "
        "jackknife influences of examples (Owen, 2007), each part with Student's "
        "quantile of its own degrees of freedom; seed variances below the median of "
        "the losses' were moderated towards it by at most 2 degrees of freedom (after "
        "Smyth, 2004). Results were looked at "
        f"{max(len(looks), 1)} time{'s' * (len(looks) > 1)}{looked}; "
        f"error rates of {100 * LEVEL:g}% hold over all looks by alpha spending (Lan "
        "and DeMets, 1983; f(S) = 1 - 2/S) and over all losses by Holm's procedure "
        "(1979). Losses whose interval lies within "
        f"±{100 * margin:g} points are called practically equal (two one-sided tests). "
        "Diverged runs count as a score of 0. Computed with dicejax "
        f"{dicejax.__version__}.\n"
    )


def latex(rows: Sequence[Row]) -> str:
    """Return a table of scores, differences and verdicts; it wants booktabs."""
    metric = heading(results_of(rows)[0]["primary_metric"])
    lines = [
        r"\begin{tabular}{lrrl}",
        r"\toprule",
        rf"loss & {escaped(metric)} & difference (95\% CI) & verdict \\",
        r"\midrule",
        *(" & ".join(_cells(row)) + r" \\" for row in rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def _cells(row: Row) -> list[str]:
    of = row.summary
    score = "--" if of.mean is None else f"{100 * of.mean:.2f}"
    if of.sd is not None:
        score = rf"${score} \pm {100 * of.sd:.2f}$"
    if row.against is None:
        return [escaped(row.loss), score, "", "baseline"]
    difference = "--"
    if row.against.crossed is not None:
        one = row.against.crossed
        mean, low, high = (_number(100 * x) for x in (one.mean, one.low, one.high))
        difference = f"${mean}$ (${low}$ to ${high}$)"
    elif row.against.mean is not None:
        difference = f"${_number(100 * row.against.mean)}$"
    return [escaped(row.loss), score, difference, row.against.verdict.outcome]


def _number(value: float) -> str:
    return signed(value).replace("\N{MINUS SIGN}", "-")


def escaped(text: str) -> str:
    r"""Escape the characters that LaTeX reads as commands.

    >>> print(escaped("dsc_x 5% {a} \\input"))
    dsc\_x 5\% \{a\} \textbackslash{}input
    """
    return "".join(_SPECIAL.get(one, one) for one in " ".join(text.split()))
