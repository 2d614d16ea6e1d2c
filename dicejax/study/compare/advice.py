"""Which loss to use, in a few lines: the cheapest that nothing is shown to beat."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence

from dicejax.errors import quote
from dicejax.study import significance
from dicejax.study.compare.baselines import ADJUSTED, THRESHOLD
from dicejax.study.compare.failures import (
    FEWEST_EXAMPLES,
    compared_failures,
    has_few_examples,
    is_repeated,
    support_of,
)
from dicejax.study.compare.statistics import (
    NO_CLAIM,
    Row,
    apart,
    metric_of,
    results_of,
    rivals_of,
    source_of,
)
from dicejax.study.compare.table import remedy
from dicejax.study.compare.testing import LEVEL, MARGIN, baseline_name
from dicejax.study.significance import CrossedDifference, signed

_UNSETTLED = ("baseline", *NO_CLAIM)
_ALIKE = {
    THRESHOLD: ", both with a tuned threshold",
    ADJUSTED: ", both with adjusted logits",
}


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
    ahead = [row for row in settled if _gain(row) > margin]
    better = [row for row in ahead if row.outcome == "better"]
    if not better:
        return None
    controls = [row for row in ahead if row.is_control]
    for control in sorted(controls, key=lambda row: (cost(row), -_gain(row))):
        if not any(_versus(row, control) == "better" for row in settled):
            return control
    return max(rivals_of(better) or better, key=_gain)


def foremost(rows: Sequence[Row], margin: float = MARGIN) -> Row | None:
    """Return the loss or control that the advice is about; None where all failed.

    Where the baseline is kept it is the one that is better by no more than the margin,
    else the one with the largest gain that is possible.
    """
    best, stable = recommended(rows, margin), _stable(rows)
    if best is not None or not stable or rows[0].failures.seeds:
        return best
    return _ahead(rows, stable, margin) or stable[0]


def _compared(rows: Sequence[Row]) -> list[Row]:
    return rivals_of(rows) or [row for row in rows if row.against]


def _stable(rows: Sequence[Row]) -> list[Row]:
    """Return what did not fail, that with the largest possible gain first."""
    stable = (row for row in _compared(rows) if row.against.crossed is not None)
    return sorted(stable, key=lambda row: row.against.crossed.high, reverse=True)


def _ahead(rows: Sequence[Row], stable: Sequence[Row], margin: float) -> Row | None:
    """Return the best that is better, where no gain of more than the margin is open."""
    better = [row for row in rows if row.outcome == "better"]
    is_closed = _possible_gain(rows, stable[0]) <= margin or _are_decided(stable)
    return max(better, key=_gain) if better and is_closed else None


def _possible_gain(rows: Sequence[Row], row: Row) -> float:
    """Return the upper end of a gain; no score is above 1, however wide it is."""
    return min(max(row.against.crossed.high, 0.0), 1 - rows[0].summary.mean)


def _are_decided(rows: Sequence[Row]) -> bool:
    decided = ("better", "worse", "identical predictions", "identical scores")
    return all(row.outcome in decided for row in rows)


def versus_controls(rows: Sequence[Row]) -> tuple[str, dict[str, str]]:
    """Return the best loss that did not fail, and its difference to each control."""
    metric = metric_of(rows)
    for row in rivals_of(rows):
        if row.versus and row.outcome not in _UNSETTLED:
            texts = {}
            for control, versus in row.versus.items():
                if versus.crossed is None:
                    texts[control] = versus.verdict.outcome
                    continue
                mean, interval = _points(versus.crossed, metric)
                texts[control] = f"{mean} ({interval}){_alike(row, control)}"
            return row.loss, texts
    return "", {}


def _gain(row: Row) -> float:
    return row.against.crossed.mean


def _alike(row: Row, control: str) -> str:
    """Say that a loss has its decisions moved as a control's are; empty if not."""
    versus = row.versus.get(control)
    is_alike = versus is not None and versus.decided_alike
    return _ALIKE[control.rpartition(" + ")[2]] if is_alike else ""


def _versus(row: Row, control: Row) -> str:
    """Return the outcome of a loss vs. a control."""
    versus = row.versus.get(control.loss)
    return versus.verdict.outcome if versus else "no verdict"


def _verdict(rows: Sequence[Row], margin: float) -> str:
    baseline = baseline_name(rows[0].loss)
    losses = _compared(rows)
    if not losses:
        return f"Nothing to compare: only {baseline} has run."
    finished = [run for row in rows for run in row.outcomes if run.result]
    if has_few_examples(finished[0]):
        size = len(finished[0].example_statistics)
        return (
            f"No verdict: the test set has {size} example{'s' * (size > 1)}, and it "
            f"takes {FEWEST_EXAMPLES}.\nNext: a larger test set. Of {FEWEST_EXAMPLES} "
            "examples each is 10 points, so hundreds tell more."
        )
    if all(row.failures.has_learnt_nothing for row in rows if row.failures.runs):
        text = "Nothing learnt: this says nothing about the losses."
        return f"{text}\nTo do: {remedy(rows)}."
    if rows[0].failures.seeds:
        return _without_baseline(rows)
    if is_repeated(rows[0].outcomes) or all(is_repeated(x.outcomes) for x in losses):
        names = [row.loss for row in rows if is_repeated(row.outcomes)]
        is_ours = source_of(rows) == "run"
        todo = "take a larger test set" if is_ours else "check that the seed is used"
        return (
            f"No verdict: all seeds of {_listed(names)} have the same scores.\n"
            f"They are one run. Next: {todo}."
        )
    if all(row.against.test is None for row in losses):
        seeds, least = max(len(x.against.seeds) for x in losses), significance.MIN_SEEDS
        enough = max(least, 5)
        return (
            f"No verdict yet: {seeds} seed{'s' * (seeds != 1)}, and it takes {least}.\n"
            f"Next: {_command(rows, enough)}{_minutes(rows, enough - seeds, losses)}."
        )
    best = recommended(rows, margin)
    text = _kept(rows, margin) if best is None else _advice(rows, best)
    unstable = [row.loss for row in rows if row.failures.is_unstable]
    also = f"\nUnstable: {', '.join(unstable)}." if unstable and best is None else ""
    return text + also


def _kept(rows: Sequence[Row], margin: float) -> str:
    """Return the verdict where no loss is advised."""
    baseline, metric = baseline_name(rows[0].loss), metric_of(rows)
    stable = _stable(rows)
    if not stable:
        return "Undecided: every other loss failed in some runs."
    if (ahead := _ahead(rows, stable, margin)) is not None:
        mean = 100 * _gain(ahead)
        text = f"Keep {baseline}: {ahead.loss} is only {mean:.2f} {metric} ahead.\n"
        within = f"Differences within ±{100 * margin:g} do not matter in practice."
        return text + f"{_points(ahead.against.crossed, metric)[1]}. {within}"
    if _are_decided(stable):
        return f"Keep {baseline}: no loss is better, and all are worse or the same."
    most, gain = stable[0], _possible_gain(rows, stable[0])
    points = f"{100 * gain:.1f} {metric}"
    if gain <= margin:
        return f"Keep {baseline}: no loss beats it by more than {points}."
    more = " by more than the margin" * any(x.outcome == "better" for x in rows)
    return (
        f"Undecided: no loss is shown to beat {baseline}{more}.\n"
        f"A gain of up to {points} ({most.loss}) is still possible."
        f"{_next(rows, most)}{_first_two(rows)}"
    )


def _without_baseline(rows: Sequence[Row]) -> str:
    """Say who learns where the baseline fails, in all runs or in some.

    The cheapest control that learns mends the baseline: only a comparison with that
    tells of losses.
    """
    failed, baseline = rows[0].failures, baseline_name(rows[0].loss)
    metric = metric_of(rows)
    learnt = [row for row in rows[1:] if row.failures.median is not None]
    learnt.sort(key=lambda row: (cost(row), -row.failures.median))
    sound = [row for row in learnt if not row.failures.seeds]
    if not sound:  # those that fail the least, if less often than the baseline
        least = min((row.failures.share for row in learnt), default=1.0)
        fewest = [row for row in learnt if row.failures.share == least]
        if not fewest or compared_failures(fewest[0].failures, failed) > LEVEL:
            text = "Undecided: every loss failed in some runs."
            names = [row.loss for row in rows if row.failures.seeds]
            return f"{text}\nFailed: {', '.join(names)}. To do: {remedy(rows)}."
        sound = fewest[:1]
    names, do = _listed([row.loss for row in sound]), "do" if sound[1:] else "does"
    subject = "Cross-entropy" if rows[0].loss == "ce" else baseline
    mostly = " mostly" if sound[0].failures.seeds else ""
    if failed.has_learnt_nothing:
        text = f"{subject} learns nothing here: {names} {do}{mostly}."
    else:
        text = f"{subject} fails in {len(failed.seeds)} of {failed.runs} runs: {names} "
        text += f"{do} not{', mostly' if mostly else ''}."
    controls = [row for row in sound if row.is_control]
    unbeaten = [
        x for x in controls if "better" not in {_versus(y, x) for y in controls}
    ]
    leader = max(sound, key=lambda row: row.failures.median)
    mended = (unbeaten or controls or [leader])[0]
    p_value = compared_failures(mended.failures, failed)
    fisher = f"Fisher's exact test of the failed runs: p {_p(p_value)}"
    if p_value <= LEVEL:
        text += f"\nTo do: use {_name(mended.loss)}, {remedy(rows)}. {fisher}."
    else:
        text += f"\nTo do: {remedy(rows)}. It may be chance ({fisher})."
    medians = {baseline: failed.median, mended.loss: mended.failures.median}
    if medians[baseline] is None:
        del medians[baseline]
    if len(medians) == 1:
        medians[leader.loss] = leader.failures.median
    listed = ", ".join(f"{name} {100 * x:.1f}" for name, x in medians.items())
    text += f"\nMedian {metric} of the runs that learn: {listed}.{_first_two(sound)}"
    if sound[1:]:
        flag = f"--baseline {quote(mended.loss) if ' ' in mended.loss else mended.loss}"
        text += f" Next: dicejax report with {flag} compares the others with it."
    return text


def _first_two(rows: Sequence[Row], pairs: Sequence[set[str]] = ()) -> str:
    """Return the difference of the two highest means, without failed runs, if unsaid.

    A loss is compared with a control, and either with the baseline.
    """
    scored = [row for row in rows if row.summary.n and not row.failures.seeds]
    scored.sort(key=lambda row: -row.summary.mean)
    if not scored[1:]:
        return ""
    pair = scored[:2]
    if pair[0].against is None or (pair[0].is_control and rivals_of(pair[1:])):
        pair.reverse()
    ours, other = pair
    crossed = apart(ours, other)
    if crossed is None or {ours.loss, other.loss} in pairs:
        return ""
    mean, interval = _points(crossed, metric_of(rows))
    name = _name(other.loss) if other.against else baseline_name(other.loss)
    alike = _alike(ours, other.loss)
    return f" {_name(ours.loss)} vs. {name}{alike}: {mean} ({interval})."


def _advice(rows: Sequence[Row], best: Row) -> str:
    """Advise a loss or control that is better than the baseline, or not beaten."""
    baseline = baseline_name(rows[0].loss)
    metric = metric_of(rows)
    better = [row for row in rows if row.outcome == "better"]
    leader = max(rivals_of(better) or better, key=_gain)
    # The loss that the advice is about: the best, where a control is not better itself.
    claim = best if best in better else leader
    over = _points(claim.against.crossed, metric)
    runs, limit = claim.failures.runs, 100 * claim.failures.limit
    limited = (
        f" None of its {runs} runs failed; so few may miss a failure rate of up to "
        f"{limit:.0f}%."
    )
    pairs = [{claim.loss, rows[0].loss}]
    if best.is_control:
        rivals = [row for row in rivals_of(rows) if best.loss in row.versus]
        rivals = [row for row in rivals if row.versus[best.loss].crossed is not None]
        text = f"Use {_name(best.loss)}: {over[0]} over {baseline}.\n{over[1]}."
        if best is not claim:
            rivals = [leader] if best.loss in leader.versus else []
            text = (
                f"Try {_name(best.loss)} first: {leader.loss} is not shown to beat "
                f"this control.\n{leader.loss} vs. {baseline}: {over[0]} ({over[1]})."
            )
        text += limited
        if rivals:
            # One that is not shown to be better than the baseline may beat the control,
            # as it has moved decisions there.
            beating = [row for row in rivals if _versus(row, best) == "better"]
            mean = {row.loss: row.versus[best.loss].crossed.mean for row in rivals}
            rival = max(beating or rivals, key=lambda row: mean[row.loss])
            apart_ = _points(rival.versus[best.loss].crossed, metric)
            alike = _alike(rival, best.loss)
            name = _name(best.loss)
            text += f" {rival.loss} vs. {name}{alike}: {apart_[0]} ({apart_[1]})."
            pairs.append({rival.loss, best.loss})
            if best is claim:
                which = rival.loss if beating else "No loss"
                text += f" {which} is shown to beat {name}."
        return text + _first_two(rows, pairs)
    text = f"Use {best.loss}: {over[0]} over {baseline}.\n{over[1]}.{limited}"
    controls = sorted((row for row in rows if row.is_control), key=cost)
    # The error rate holds up to the first that is not beaten.
    beaten = []
    for row in itertools.takewhile(lambda x: _versus(best, x) == "better", controls):
        alike = _alike(best, row.loss).removeprefix(", ")
        beaten.append(f"{_name(row.loss)} ({alike})" if alike else _name(row.loss))
    if beaten:
        text += f" It beats {_listed(beaten)} too."
    elif not controls:
        text += " No control took part: class weights or a threshold may do as well."
    more = [row.loss for row in rivals_of(better) if row is not best]
    if more:
        are = "are" if more[1:] else "is"
        text += f" {_listed(more)} {are} better than {baseline} too."
    return text + _first_two(rows, pairs)


def _name(control: str) -> str:
    return "class weights (wce)" if control == "wce" else control


def _listed(names: Sequence[str]) -> str:
    """Return names as a part of a sentence, of more than three the first two.

    >>> _listed(["a"]), _listed("abc"), _listed("abcd")
    ('a', 'a, b and c', 'a, b and others')
    """
    *first, last = names if len(names) < 4 else [*names[:2], "others"]
    return f"{', '.join(first)} and {last}" if first else last


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"= {value:.2g}"


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
    settled = significance.detectable(crossed, level, seeds=seeds)
    text = f" Next: {_command(rows, seeds)}{_minutes(rows, more, rivals)}"
    # No difference is as large where scores would pass 1.
    if not 0.0005 <= settled <= 1 - rows[0].summary.mean:
        return f"{text}."
    return f"{text} would settle differences of {100 * settled:.1f}."


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
