"""Which loss to use, in a few lines: the cheapest that nothing is shown to beat."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence

from dicejax.study import significance
from dicejax.study.compare.baselines import THRESHOLD
from dicejax.study.compare.failures import (
    FEWEST_EXAMPLES,
    compared_failures,
    has_few_examples,
    is_repeated,
    support_of,
)
from dicejax.study.compare.jobs import PLAIN
from dicejax.study.compare.statistics import Row, apart, results_of, rivals_of
from dicejax.study.compare.table import remedy
from dicejax.study.compare.testing import LEVEL, MARGIN, NO_CLAIM, Contrast
from dicejax.study.sentences import sentences

_UNSETTLED = ("baseline", *NO_CLAIM)


def headline(rows: Sequence[Row], margin: float = MARGIN) -> str:
    """Return the verdict on a comparison in lines, of which the first is the shortest.

    It begins with the losses that were still improving when training ended.
    """
    caveat, verdict = still_rising(rows, margin), _verdict(rows, margin)
    return sentences("advice").later(caveat, verdict) if caveat else verdict


def still_rising(rows: Sequence[Row], margin: float = MARGIN) -> str:
    """Say which losses were best on dev at the last evaluation; empty for none.

    Their mean over seeds rose by more than the margin, in most of the seeds.
    """
    rising = [row.loss for row in rows if row.rise > margin]
    if not rising:
        return ""
    experiment = next(x for row in rows if (x := row.experiment) is not None)
    epochs = 2 * experiment.training.epochs
    return sentences("advice").still_rising(rising, epochs)


def cost(row: Row) -> int:
    """Return the rank of a loss by effort: cross-entropy 0, a tuned threshold 1.

    Before it are models that are no fine-tuned encoders, the most frequent class first.
    Class weights and adjusted logits follow, then heads that begin at the prior, then
    losses with hyper-parameters.
    """
    if row.against is None:
        return 0
    if row.loss in PLAIN:
        return PLAIN.index(row.loss) - len(PLAIN)
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
    losses have theirs moved alike. Models without a fine-tuned encoder come before it.
    """
    settled = [row for row in rows if row.outcome not in _UNSETTLED]
    for row in sorted(settled, key=cost):
        if row.loss in PLAIN and not _is_beaten(row, settled):
            return row
    ahead = [row for row in settled if _gain(row) > margin]
    better = [row for row in ahead if row.outcome == "better"]
    if not better:
        return None
    controls = [row for row in ahead if row.is_control]
    for control in sorted(controls, key=lambda row: (cost(row), -_gain(row))):
        if not any(_versus(row, control) == "better" for row in settled):
            return control
    return max(rivals_of(better) or better, key=_gain)


def _is_beaten(control: Row, others: Sequence[Row]) -> bool:
    """Return whether the baseline or another is ahead of a control by its interval.

    The adjusted verdict may be undecided where the interval, that of one loss alone,
    does not contain 0. A model that is behind by its interval is not advised.
    """
    if control.outcome == "worse" or _is_ahead(control.against, sign=-1):
        return True
    return any(
        _versus(row, control) == "better" or _is_ahead(row.versus.get(control.loss))
        for row in others
    )


def _is_ahead(contrast: Contrast | None, sign: int = 1) -> bool:
    """Return whether the interval lies above 0, or below it."""
    crossed = None if contrast is None else contrast.crossed
    return crossed is not None and min(sign * crossed.low, sign * crossed.high) > 0


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
    stable = (x for x in _compared(rows) if x.against and x.against.crossed)
    return sorted(stable, key=lambda row: row.claim.high, reverse=True)


def _ahead(rows: Sequence[Row], stable: Sequence[Row], margin: float) -> Row | None:
    """Return the best that is better, where no gain of more than the margin is open."""
    better = [row for row in rows if row.outcome == "better"]
    is_closed = _possible_gain(rows, stable[0]) <= margin or _are_decided(stable)
    return max(better, key=_gain) if better and is_closed else None


def _possible_gain(rows: Sequence[Row], row: Row) -> float:
    """Return the upper end of a gain; no score is above 1, however wide it is."""
    return min(max(row.claim.high, 0.0), 1 - (rows[0].mean or 0.0))


def _are_decided(rows: Sequence[Row]) -> bool:
    decided = ("better", "worse", "identical predictions", "identical scores")
    return all(row.outcome in decided for row in rows)


def versus_controls(rows: Sequence[Row]) -> tuple[str, dict[str, str]]:
    """Return the best loss that did not fail, and its difference to each control."""
    texts, metric = sentences("advice"), rows[0].metric
    for row in rivals_of(rows):
        if row.versus and row.outcome not in _UNSETTLED:
            return row.loss, {
                control: texts.difference(versus.crossed, metric, row, control)
                if versus.crossed
                else versus.verdict.outcome
                for control, versus in row.versus.items()
            }
    return "", {}


def _gain(row: Row) -> float:
    return row.claim.mean


def _versus(row: Row, control: Row) -> str:
    """Return the outcome of a loss vs. a control."""
    versus = row.versus.get(control.loss)
    return versus.verdict.outcome if versus else "no verdict"


def _verdict(rows: Sequence[Row], margin: float) -> str:
    texts, baseline, losses = sentences("advice"), rows[0], _compared(rows)
    if not losses:
        return texts.alone(baseline)
    first = baseline.finished[0]
    if has_few_examples(first):
        return texts.few_examples(first.example_count, FEWEST_EXAMPLES)
    models = [row for row in rows if row.loss != "majority"]
    if all(row.failures.has_learnt_nothing for row in models if row.failures.runs):
        return texts.nothing_learnt(remedy(rows))
    if baseline.failures.seeds:
        return _without_baseline(models)
    repeated = [row.loss for row in rows if is_repeated(row.runs)]
    if baseline.loss in repeated or all(row.loss in repeated for row in losses):
        return texts.repeated(repeated, baseline.source)
    pairs = [x.against for x in losses if x.against and x.loss not in repeated]
    if not any(pair.is_tested for pair in pairs):
        seeds, least = max(len(x.seeds) for x in pairs), significance.MIN_SEEDS
        enough = max(least, 5)
        minutes = _minutes(rows, enough - seeds, losses)
        return texts.few_seeds(seeds, least, enough, baseline.source, minutes)
    best = recommended(rows, margin)
    if best is not None:
        return _advice(rows, best)
    unstable = [row.loss for row in rows if row.failures.is_unstable]
    text = _kept(rows, losses, margin)
    return f"{text}\n{texts.unstable(unstable)}" if unstable else text


def _kept(rows: Sequence[Row], losses: Sequence[Row], margin: float) -> str:
    """Return the verdict where none of the losses compared is advised."""
    texts, baseline, stable = sentences("advice"), rows[0], _stable(rows)
    if not stable:
        return texts.without_interval(all(row.failures.seeds for row in losses))
    if (ahead := _ahead(rows, stable, margin)) is not None:
        return texts.barely_ahead(baseline, ahead, margin)
    if _are_decided(stable):
        return texts.none_better(baseline, len(stable) == len(losses))
    gain = _possible_gain(rows, stable[0])
    if gain <= margin:
        return texts.no_gain(baseline, gain, len(stable) == len(losses))
    is_better = any(row.outcome == "better" for row in rows)
    undecided = texts.undecided(baseline, is_better, gain, stable[0].loss)
    return f"{undecided} {_next(rows, stable[0])}{_first_two(rows)}"


def _without_baseline(rows: Sequence[Row]) -> str:
    """Say who learns where the baseline fails, in all runs or in some.

    The cheapest control that learns mends the baseline: only a comparison with that
    tells of losses.
    """
    failed, texts = rows[0].failures, sentences("advice")
    learnt = [row for row in rows[1:] if row.failures.median is not None]
    learnt.sort(key=lambda row: (cost(row), -(row.failures.median or 0.0)))
    sound = [row for row in learnt if not row.failures.seeds]
    if not sound:  # those that fail the least, if less often than the baseline
        least = min((row.failures.share for row in learnt), default=1.0)
        fewest = [row for row in learnt if row.failures.share == least]
        if not fewest or compared_failures(fewest[0].failures, failed) > LEVEL:
            names = [row.loss for row in rows if row.failures.seeds]
            return texts.all_failed(names, remedy(rows))
        sound = fewest[:1]
    controls = [row for row in sound if row.is_control]
    unbeaten = [
        x for x in controls if "better" not in {_versus(y, x) for y in controls}
    ]
    leader = max(sound, key=lambda row: row.failures.median or 0.0)
    mended = (unbeaten or controls or [leader])[0]
    pair = (mended, leader) if failed.median is None else (rows[0], mended)
    p_value = compared_failures(mended.failures, failed)
    return texts.baseline_failed(
        baseline=rows[0],
        sound=sound,
        mended=mended,
        p=p_value,
        is_shown=p_value <= LEVEL,
        remedy=remedy(rows),
        learners=pair[:1] if pair[0] is pair[1] else pair,
        first_two=_first_two(sound),
    )


def _first_two(rows: Sequence[Row], pairs: Sequence[set[str]] = ()) -> str:
    """Return the difference of the two highest means, without failed runs, if unsaid.

    A loss is compared with a control, and either with the baseline.
    """
    scored = [row for row in rows if row.finished and not row.failures.seeds]
    scored.sort(key=lambda row: -(row.mean or 0.0))
    if not scored[1:]:
        return ""
    pair = scored[:2]
    if pair[0].against is None or (pair[0].is_control and rivals_of(pair[1:])):
        pair.reverse()
    ours, other = pair
    crossed = apart(ours, other)
    if crossed is None or {ours.loss, other.loss} in pairs:
        return ""
    return " " + sentences("advice").versus(ours.name, ours, other, crossed)


def _advice(rows: Sequence[Row], best: Row) -> str:
    """Advise a loss or control that is better than the baseline, or not beaten."""
    if best.loss in PLAIN:
        return _plain_advice(rows, best)
    better = [row for row in rows if row.outcome == "better"]
    leader = max(rivals_of(better) or better, key=_gain)
    # The loss that the advice is about: the best, where a control is not better itself.
    claim = best if best in better else leader
    texts, baseline = sentences("advice"), rows[0]
    parts = [
        texts.use(best, baseline)
        if best is claim
        else texts.try_first(best, leader, baseline)
    ]
    if claim.failures.are_seeded:
        parts.append(texts.none_failed(claim.failures))
    pairs = [{claim.loss, baseline.loss}]
    if best.is_control:
        rivals = rivals_of(rows) if best is claim else [leader]
        claims = [
            (row, versus.crossed)
            for row in rivals
            if (versus := row.versus.get(best.loss)) and versus.crossed
        ]
        if claims:
            # One that is not shown to be better than the baseline may beat the control,
            # as it has moved decisions there.
            beating = [x for x in claims if _versus(x[0], best) == "better"]
            rival, difference = max(beating or claims, key=lambda x: x[1].mean)
            parts.append(texts.versus(rival.loss, rival, best, difference))
            pairs.append({rival.loss, best.loss})
            if best is claim:
                parts.append(texts.beats_control(rival, best, bool(beating)))
        return " ".join(parts) + _first_two(rows, pairs)
    controls = sorted((row for row in rows if row.is_control), key=cost)
    # The error rate holds up to the first that is not beaten.
    beaten = itertools.takewhile(lambda x: _versus(best, x) == "better", controls)
    if names := [texts.beaten(row, best) for row in beaten]:
        parts.append(texts.beats_controls(names))
    elif not controls and baseline.loss not in PLAIN:
        parts.append(texts.no_control())
    if more := [row.loss for row in rivals_of(better) if row is not best]:
        parts.append(texts.better_too(more, baseline))
    return " ".join(parts) + _first_two(rows, pairs)


def _plain_advice(rows: Sequence[Row], best: Row) -> str:
    """Advise a model that is no fine-tuned encoder, and compare the best of those."""
    texts = sentences("advice")
    others = [row for row in rows if row is not best and row.finished]
    others.sort(key=lambda row: (row.loss in PLAIN, -(row.mean or 0.0)))
    for row in others:
        pair = (best, row) if row.against is None else (row, best)
        if (crossed := apart(*pair)) is not None:
            versus = texts.versus(pair[0].loss, *pair, crossed)
            return f"{texts.use_plain(best)}\n{versus}"
    return texts.use_plain(best)


def _next(rows: Sequence[Row], row: Row) -> str:
    """Say how much five further seeds would show, and the time they take."""
    crossed, more = row.claim, 5
    seeds = crossed.seeds + more
    rivals = rivals_of(rows)
    level = significance.nominal_level(
        [crossed.seeds, seeds], LEVEL / max(len(rivals), 1)
    )
    texts, baseline = sentences("advice"), rows[0]
    if significance.detectable(crossed, level, seeds=10_000) > max(crossed.high, 0.0):
        counts = support_of(baseline.results[0]["test"])
        rarest = min(counts, key=lambda name: counts[name], default=None)
        size = baseline.finished[0].example_count
        return texts.test_set(size, rarest, counts[rarest] if rarest is not None else 0)
    settled = significance.detectable(crossed, level, seeds=seeds)
    # No difference is as large where scores would pass 1.
    is_possible = 0.0005 <= settled <= 1 - (baseline.mean or 0.0)
    minutes = _minutes(rows, more, rivals)
    difference = settled if is_possible else None
    return texts.more_seeds(seeds, baseline.source, minutes, difference)


def _minutes(rows: Sequence[Row], seeds: int, rivals: Sequence[Row]) -> int | None:
    """Return the time of further seeds of the baseline and rivals, if it is known."""
    if rows[0].source != "run":
        return None
    trained = [result for result in results_of(rows) if "control" not in result]
    seconds = [result["seconds"] for result in trained if result.get("seconds")]
    if not seconds:
        return None
    runs = seeds * (1 + sum(bool(rival.runs) for rival in rivals))
    return math.ceil(statistics.fmean(seconds) * runs / 60)
