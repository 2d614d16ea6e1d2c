"""Which loss to use, in a few lines: the cheapest that nothing is shown to beat."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence

from dicejax.errors import quote
from dicejax.study import significance
from dicejax.study.compare.baselines import THRESHOLD
from dicejax.study.compare.failures import support_of
from dicejax.study.compare.statistics import (
    Row,
    metric_of,
    results_of,
    rivals_of,
    source_of,
)
from dicejax.study.compare.table import remedy
from dicejax.study.compare.testing import LEVEL, MARGIN, baseline_name
from dicejax.study.significance import CrossedDifference, signed

_UNSETTLED = ("baseline", "unstable", "nothing learnt", "no verdict")


def headline(rows: Sequence[Row], margin: float = MARGIN) -> str:
    """Return the verdict on a comparison in lines, of which the first is the shortest.

    It begins with the losses that were still improving when training ended.
    """
    caveat, verdict = still_rising(rows, margin), _verdict(rows, margin)
    later = f"{caveat}\nSo far: {verdict[:1].lower()}{verdict[1:]}"
    return later if caveat else verdict


def still_rising(rows: Sequence[Row], margin: float = MARGIN) -> str:
    """Say which losses were best on dev at the last evaluation; empty for none.

    Their mean over seeds rose by more than the margin, in most of the seeds.
    """
    rising = [row.loss for row in rows if row.rise > margin]
    if not rising:
        return ""
    experiment = next(
        run.experiment for row in rows for run in row.outcomes if run.experiment
    )
    flag = f"--training.epochs {2 * experiment.training.epochs}"
    return (
        "Train longer: dev scores were still rising, so the order may turn.\n"
        f"Still rising when training ended: {', '.join(rising)}. Next: dicejax compare "
        f"with {flag} and another --out."
    )


def cost(row: Row) -> int:
    """Return the rank of a loss by effort: cross-entropy 0, a tuned threshold 1.

    Class weights and adjusted logits follow, then heads that begin at the prior, then
    losses with hyper-parameters.
    """
    if row.against is None:
        return 0
    if not row.is_control:
        return 4
    if row.loss.endswith(THRESHOLD):
        return 1
    return 3 if "+prior" in row.loss else 2


def recommended(rows: Sequence[Row], margin: float = MARGIN) -> Row | None:
    """Return the cheapest loss that none is shown to beat; None to keep the baseline.

    Controls are taken in the order of their cost, and the next is asked for only where
    something is shown to beat the one before: the first that is wrongly said to be
    beaten is so with a probability of at most 5 %, and all of them together with it.
    One that is ahead of the baseline by no more than the margin on average is passed
    over: it is no more advice than the baseline. Vs. a control with moved decisions,
    losses have theirs moved alike.
    """
    settled = [row for row in rows if row.outcome not in _UNSETTLED]
    better = [row for row in settled if row.outcome == "better"]
    if not better:
        return None
    controls = [row for row in settled if row.is_control and _gain(row) > margin]
    for control in sorted(controls, key=lambda row: (cost(row), -_gain(row))):
        if not any(_versus(row, control) == "better" for row in settled):
            return control
    return max(rivals_of(better) or better, key=_gain)


def versus_controls(rows: Sequence[Row]) -> tuple[str, dict[str, str]]:
    """Return the best loss that did not fail, and its difference to each control."""
    metric = metric_of(rows)
    for row in rivals_of(rows):
        if row.versus and row.outcome not in _UNSETTLED:
            texts = {}
            for control, versus in row.versus.items():
                mean, interval = _points(versus.crossed, metric)
                texts[control] = f"{mean} ({interval}){_alike(row, control)}"
            return row.loss, texts
    return "", {}


def _gain(row: Row) -> float:
    return row.against.crossed.mean


def _alike(row: Row, control: str) -> str:
    """Say that a loss has its decisions moved as a control's are; empty if not."""
    return ", decided alike" if row.versus[control].decided_alike else ""


def _versus(row: Row, control: Row) -> str:
    """Return the outcome of a loss vs. a control."""
    versus = row.versus.get(control.loss)
    return versus.verdict.outcome if versus else "no verdict"


def _verdict(rows: Sequence[Row], margin: float) -> str:
    baseline = baseline_name(rows[0].loss)
    losses = rivals_of(rows) or [row for row in rows if row.against]
    if not losses:
        return f"Nothing to compare: only {baseline} has run."
    metric = metric_of(rows)
    if all(row.outcome == "nothing learnt" for row in losses):
        text = "Nothing learnt: this says nothing about the losses."
        return f"{text}\nTo do: {remedy(rows)}."
    tested = [row for row in losses if row.against.crossed is not None]
    if not tested:
        seeds, least = max(len(x.against.seeds) for x in losses), significance.MIN_SEEDS
        enough = max(least, 5)
        return (
            f"No verdict yet: {seeds} seed{'s' * (seeds != 1)}, and it takes {least}.\n"
            f"Next: {_command(rows, enough)}{_minutes(rows, enough - seeds, losses)}."
        )
    best = recommended(rows, margin)
    if best is not None:
        return _advice(rows, best, metric)
    unstable = [row.loss for row in rows if row.failures.is_unstable]
    also = f"\nUnstable: {', '.join(unstable)}." if unstable else ""
    stable = [row for row in tested if row.outcome != "unstable"]
    if not stable:
        return f"Undecided: every loss failed in some runs.{also}"
    most = max(stable, key=lambda row: row.against.crossed.high)
    # No score is above 1, however wide the interval.
    gain = min(max(most.against.crossed.high, 0.0), 1 - rows[0].summary.mean)
    no_better = ("worse", "identical predictions", "identical scores")
    points = f"{100 * gain:.1f} {metric}"
    if all(row.outcome in no_better for row in stable):
        text = f"Keep {baseline}: no loss is better, and all are worse or the same."
    elif gain <= margin:
        text = f"Keep {baseline}: no loss beats it by more than {points}."
    else:
        text = (
            f"Undecided: no loss is shown to beat {baseline}.\nA gain of up to {points}"
        )
        text += f" ({most.loss}) is still possible.{_next(rows, most)}"
    return text + also


def _advice(rows: Sequence[Row], best: Row, metric: str) -> str:
    """Advise a loss or control that is better than the baseline, or not beaten."""
    baseline = baseline_name(rows[0].loss)
    better = [row for row in rows if row.outcome == "better"]
    leader = max(rivals_of(better) or [best], key=_gain)
    # The loss that the advice is about: the best, where a control is not better itself.
    claim = best if best in better else leader
    over = _points(claim.against.crossed, metric)
    limit = f" {claim.failures.sentence.capitalize()}."
    if best.is_control:
        rivals = [row for row in rivals_of(rows) if best.loss in row.versus]
        rivals = [row for row in rivals if row.outcome != "unstable"]
        text = f"Use {_name(best.loss)}: {over[0]} over {baseline}.\n{over[1]}.{limit}"
        if best is not claim:
            rivals = [leader]
            text = (
                f"Try {_name(best.loss)} first: {leader.loss} is not shown to beat "
                f"this control.\n{leader.loss} vs. {baseline}: {over[0]} ({over[1]})."
                f"{limit}"
            )
        if rivals:
            # One that is not shown to be better than the baseline may beat the control,
            # as it has moved decisions there.
            beating = [row for row in rivals if _versus(row, best) == "better"]
            mean = {row.loss: row.versus[best.loss].crossed.mean for row in rivals}
            rival = max(beating or rivals, key=lambda row: mean[row.loss])
            apart = _points(rival.versus[best.loss].crossed, metric)
            alike = _alike(rival, best.loss)
            text += f" {rival.loss} vs. the control{alike}: {apart[0]} ({apart[1]})."
            if best is claim:
                text += f" {rival.loss if beating else 'No loss'} is shown to beat it."
        return text
    text = f"Use {best.loss}: {over[0]} over {baseline}.\n{over[1]}.{limit}"
    controls = sorted((row for row in rows if row.is_control), key=cost)
    # The error rate holds up to the first that is not beaten.
    beaten = []
    for row in itertools.takewhile(lambda x: _versus(best, x) == "better", controls):
        alike = " (decided alike)" if best.versus[row.loss].decided_alike else ""
        beaten.append(f"{_name(row.loss)}{alike}")
    if beaten:
        text += f" It beats {', '.join(beaten)} too."
    elif not controls:
        text += " No control took part: class weights or a threshold may do as well."
    more = len(rivals_of(better)) - 1
    if more:
        text += f" {more} more {'are' if more > 1 else 'is'} better than {baseline}."
    return text


def _name(control: str) -> str:
    return "class weights (wce)" if control == "wce" else control


def _points(difference: CrossedDifference, metric: str) -> tuple[str, str]:
    """Return a difference and its interval in points, in words."""
    digits = 2 if difference.high - difference.low < 0.1 else 1
    ends = (difference.mean, difference.low, difference.high)
    mean, low, high = (signed(100 * end, digits) for end in ends)
    return f"{mean} {metric}", f"95% CI {low} to {high}"


def _next(rows: Sequence[Row], row: Row) -> str:
    """Say how much five further seeds would show, and the time they take."""
    crossed, more = row.against.crossed, 5
    seeds = crossed.seeds + more
    rivals = rivals_of(rows)
    level = significance.nominal_level(
        [crossed.seeds, seeds], LEVEL / max(len(rivals), 1)
    )
    if significance.detectable(crossed, level, seeds=10_000) > max(crossed.high, 0.0):
        return f" More seeds will not decide it: the test set {_size(rows)}."
    points = 100 * significance.detectable(crossed, level, seeds=seeds)
    return (
        f" Next: {_command(rows, seeds)}{_minutes(rows, more, rivals)} would settle "
        f"differences of {points:.1f}."
    )


def _size(rows: Sequence[Row]) -> str:
    """Say how small the test set is, and its rarest class where it has classes."""
    result = results_of(rows)[0]
    run = next(run for row in rows for run in row.outcomes if run.result)
    counts = support_of(result["test"])
    text = f"is too small, with {len(run.example_statistics):,} examples"
    if counts:
        rarest = min(counts, key=lambda name: counts[name])
        text += f", {counts[rarest]:,} of {quote(rarest)}"
    return text


def _command(rows: Sequence[Row], seeds: int) -> str:
    """Say what leads to a number of seeds, which scores from elsewhere have not."""
    if source_of(rows) == "run":
        return f"dicejax compare with --seeds {seeds}"
    return f"scores of {seeds} seeds of each loss"


def _minutes(rows: Sequence[Row], seeds: int, rivals: Sequence[Row]) -> str:
    """Return the time of further seeds of the baseline and rivals; empty if unknown."""
    trained = [result for result in results_of(rows) if "control" not in result]
    seconds = [result["seconds"] for result in trained if result.get("seconds")]
    if not seconds:
        return ""
    runs = seeds * (1 + sum(bool(rival.outcomes) for rival in rivals))
    minutes = math.ceil(statistics.fmean(seconds) * runs / 60)
    return f" (about {minutes:,} more minute{'s' * (minutes > 1)} of training)"
