"""Compare the outcomes of runs, and record that in `comparison.json`.

With it go texts to paste into a paper: a methods paragraph and a LaTeX table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from etils import epath

import dicejax
from dicejax.errors import Flaw, visible
from dicejax.io.files import write_together
from dicejax.io.json_text import field, read, value_of
from dicejax.objectives import name_of
from dicejax.study.compare import statistics
from dicejax.study.compare.baselines import outcomes_of
from dicejax.study.compare.jobs import BASELINE, Job, Outcome, share_groups
from dicejax.study.compare.statistics import Row
from dicejax.study.compare.testing import LEVEL, MARGIN, Look, baseline_name
from dicejax.study.significance import MIN_SEEDS, signed

FILE = "comparison.json"
_COMMANDS = {  # of characters that LaTeX reads as others
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}


Assessment = tuple[list[Row], dict[str, str]]
"""Rows of a comparison, and the files to write, `comparison.json` the last."""


def evaluate_runs(
    jobs: Sequence[Job],
    folder: str,
    tuned: Mapping[str, Any] | None = None,
    **settings: Any,
) -> list[Row]:
    """Compare runs as `assess_runs` does, and write its files to the folder.

    Raises:
      InputError: runs cannot be read or compared, or the folder cannot be written to.
    """
    rows, texts = assess_runs(jobs, folder, tuned, **settings)
    write_together(epath.Path(folder), texts)
    return rows


def assess_runs(
    jobs: Sequence[Job],
    folder: str,
    tuned: Mapping[str, Any] | None = None,
    *,
    baseline: str = name_of(BASELINE),
    margin: float = MARGIN,
) -> Assessment:
    """Read the results of runs and compare them, after earlier looks at them.

    `folder/comparison.json` records each look at the results: p-values hold over all.

    Raises:
      InputError: runs, or the record of earlier looks, cannot be read or compared.
    """
    outcomes, controls = outcomes_of(jobs)
    outcomes = share_groups(outcomes)
    controls = [name for name in controls if name != baseline]
    return assess(outcomes, folder, tuned, baseline, margin=margin, controls=controls)


def assess(
    outcomes: Sequence[Outcome],
    folder: str,
    tuned: Mapping[str, Any] | None,
    baseline: str,
    *,
    margin: float,
    controls: Sequence[str] = (),
) -> Assessment:
    """Compare outcomes, for `comparison.json` and texts to paste."""
    path = epath.Path(folder)
    looks: list[Look] = []
    changed: dict[str, Any] = {}  # texts that `report` keeps, as it reads no data
    if (path / FILE).exists():
        try:
            record = read(path / FILE)
            for look in field(record, "looks", list, []):
                seeds = {k: value_of(v, list) for k, v in value_of(look, dict).items()}
                looks.append({k: [value_of(x, int) for x in seeds[k]] for k in seeds})
            changed = field(record, "changed", dict, {})
        except Flaw as flaw:
            raise flaw.at(path / FILE, flaw.line) from None
    rows = statistics.rows_of(
        outcomes, baseline, controls=controls, looks=looks, margin=margin
    )
    tested = [row for row in rows if row.against and row.against.test]
    now = {row.loss: list(row.against.seeds) for row in tested}
    before = {k: max((len(x.get(k, ())) for x in looks), default=0) for k in now}
    if any(len(now[loss]) > before[loss] for loss in now):
        looks.append(now)
    record = to_json(rows, tuned) | {"margin": margin, "looks": looks}
    record |= {"changed": changed} if changed else {}
    texts = {
        "methods.txt": visible(methods(rows, margin, looks), keep="\n"),
        "table.tex": latex(rows),
        FILE: json.dumps(record, indent=2) + "\n",
    }
    return rows, texts


def to_json(rows: Sequence[Row], tuned: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what `comparison.json` begins with."""
    results = statistics.results_of(rows)
    record: dict[str, Any] = {
        "baseline": rows[0].loss if rows else None,
        "primary_metric": results[0]["primary_metric"] if rows else None,
        "losses": {row.loss: row.to_json() for row in rows},
    }
    if results and results[0].get("checksums"):
        record["checksums"] = results[0]["checksums"]
    return record if tuned is None else record | {"tuning": tuned}


def methods(rows: Sequence[Row], margin: float, looks: Sequence[Look]) -> str:
    """Return a paragraph on the statistics of a comparison."""
    losses = len(statistics.rivals_of(rows))
    source = statistics.source_of(rows)
    finished = [run for row in rows for run in row.outcomes if run.result]
    metric = statistics.metric_of(rows)
    sizes = sorted({row.summary.n for row in rows})
    seeds = f"{sizes[0]} to {sizes[-1]}" if len(sizes) > 1 else f"{sizes[0]}"
    baseline = baseline_name(rows[0].loss)
    at = sorted({len(seeds) for look in looks for seeds in look.values()})
    looked = f" at {', '.join(map(str, at))} seeds" if at else ""
    size, items = f"{len(finished[0].example_statistics):,} examples", "examples"
    if finished[0].groups is not None:
        noun = "documents" if source == "run" else "groups"
        items = noun if source == "run" else "groups of examples"
        size += f" in {len(finished[0].item_statistics):,} {noun}"
    size = f" ({size})"
    test = (
        f"with seeds crossed with {items}: the variance of the mean difference is that "
        "of a two-way random effects model, by jackknife influences of "
        f"{items} (Owen, 2007), each part with Student's quantile of its own degrees "
        "of freedom"
    )
    if source == "run scores":
        size = ""
        test = (
            "with Student's t test of the mean difference over seeds; as there was one "
            "score per run, no claim is made about other test sets"
        )
    compared = (
        f"We compared {losses} loss{'es' * (losses != 1)} with {baseline} by {metric} "
        f"on the test set{size}, over {seeds} seed{'s' * (seeds != '1')}. "
    )
    computed = f"Computed with dicejax {dicejax.__version__}.\n"
    if all(row.against is None or row.against.test is None for row in rows):
        reason = "as the runs are no sample of seeds, or have too few test examples"
        if max(sizes) < MIN_SEEDS:
            reason = f"which takes {MIN_SEEDS} seeds of each loss"
        return (
            f"{compared}There was no test, {reason}: the differences are those of "
            f"these runs. {computed}"
        )
    failed = "diverged, learnt nothing" if source == "run" else "scored 0"
    moderated = (
        "; seed variances below the median of the losses' were moderated towards it by "
        "at most 2 degrees of freedom (after Smyth, 2004)"
    )
    return (
        f"{compared}Runs of a loss and of {baseline} were paired by seed, {test}"
        f"{moderated * (losses > 1)}. Results were looked at "
        f"{max(len(looks), 1)} time{'s' * (len(looks) > 1)}{looked}; "
        f"error rates of {100 * LEVEL:g}% hold over all looks by alpha spending (Lan "
        "and DeMets, 1983; f(S) = 1 - 2/S) and over all losses by Holm's procedure "
        "(1979). Losses whose interval lies within "
        f"±{100 * margin:g} points are called practically equal (two one-sided tests). "
        f"{'Diverged runs count as a score of 0. ' * (source == 'run')}"
        f"A run has failed that {failed} or scored far below the median of its loss: "
        "below half of it, or by a quarter and further below the other runs than these "
        "lie apart. A comparison with some such runs of either loss is called unstable "
        "and has no interval; numbers of failed runs are compared by Fisher's exact "
        "test. Verdicts are about runs that learn, and the share of runs that fail has "
        "a one-sided limit of 95% (Clopper and Pearson, 1934). "
        f"{computed}"
    )


def latex(rows: Sequence[Row]) -> str:
    """Return a table of scores, differences and verdicts; it needs booktabs."""
    metric = visible(statistics.metric_of(rows))
    escapes = str.maketrans(_COMMANDS)
    heads = rf"loss & {metric.translate(escapes)} & difference (95\% CI) & verdict \\"
    lines = [r"\begin{tabular}{lrrl}", r"\toprule", heads, r"\midrule"]
    for row in rows:
        score = "--" if row.summary.mean is None else f"{100 * row.summary.mean:.2f}"
        if row.summary.sd is not None:
            score = rf"${score} \pm {100 * row.summary.sd:.2f}$"
        cells = [visible(row.loss).translate(escapes), score, "", "baseline"]
        if against := row.against:
            text = "--" if against.mean is None else f"${signed(100 * against.mean)}$"
            text = "--" if against.verdict.outcome == "unstable" else text
            if crossed := against.crossed:
                ends = (crossed.mean, crossed.low, crossed.high)
                numbers = (signed(100 * end) for end in ends)
                text = "${}$ (${}$ to ${}$)".format(*numbers)
            text = text.replace("\N{MINUS SIGN}", "-")
            cells[2:] = text, against.verdict.outcome
        lines.append(" & ".join(cells) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"
