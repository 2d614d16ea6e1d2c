"""Simulate thresholds that keep a constraint: broken promises, and their price.

Dev sets are drawn again and again. The measure of a threshold on new data is computed
from the distribution, for documents from a large sample. Promises are of recall and
precision of at least 0.9, and of a false-positive rate of at most 0.1:

- how often a promise is broken (at most delta, but for noise of the simulation) and how
  often none can be given; its price in precision, or in recall where another measure
  is promised, vs. the plug-in threshold, which has the bound on dev itself; and how
  often the plug-in threshold misses the bound;
- the same where elements come in documents, and measures are means over these;
- the same where scores are rounded to few values, where precision falls as the
  threshold rises, of several correlated labels at once, of documents with correlated
  spans, and where dev chooses the best of several checkpoints.

usage:    python benchmarks/guarantees.py [--smallest]
measured: see benchmarks/README.md
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tyro
from scipy import special

from dicejax.metrics.bounds import running_shares
from dicejax.metrics.guarantees import GRID, Constraint

NEW = 400_000  # new documents that stand for the distribution
BOUNDS = {"recall": 0.9, "precision": 0.9, "fpr": 0.1}
DISTANCE, SPREAD = 4.0, 1.3  # of the log-odds of two classes, which are normal


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """Sizes of the simulation.

    Args:
      samples: dev sets of each kind.
      sizes: examples of a dev set.
      priors: shares of positives.
      deltas: probabilities of a broken promise.
      several: numbers of labels, and of checkpoints.
      smallest: smoke test with the smallest sizes.
    """

    samples: int = 2000
    sizes: tuple[int, ...] = (50, 200, 1000, 5000)
    priors: tuple[float, ...] = (0.5, 0.1, 0.02)
    deltas: tuple[float, ...] = (0.05, 0.1)
    several: int = 5
    smallest: bool = False


class Classes(NamedTuple):
    """Scores of two classes.

    Attributes:
      prior: share of positives.
      width: scores are rounded down to multiples of it; 0: they are not.
      spoilt: share of negatives with log-odds of 5, above most positives.
    """

    prior: float
    width: float = 0.0
    spoilt: float = 0.0

    def draw(self, rng: np.random.Generator, gold: np.ndarray) -> np.ndarray:
        """Return the probabilities of examples."""
        odds = SPREAD * rng.normal(size=gold.shape) + DISTANCE * (gold - 0.5)
        if self.width:
            odds = np.floor(odds / self.width) * self.width
        if self.spoilt:
            odds[~gold & (rng.random(gold.shape) < self.spoilt)] = 5.0
        return special.expit(odds)

    def measures(self, limits: np.ndarray) -> dict[str, np.ndarray]:
        """Return the measures of thresholds on new data."""
        odds = special.logit(np.minimum(limits, 1))
        if self.width:
            values = np.arange(-20, 21) * self.width
            above = np.searchsorted(special.expit(values), limits)
            odds = np.append(values, np.inf)[above]
        recall, fpr = (
            special.ndtr((sign * DISTANCE / 2 - odds) / SPREAD) for sign in (1, -1)
        )
        fpr = (1 - self.spoilt) * fpr + self.spoilt * (odds <= 5)
        accepted = self.prior * recall + (1 - self.prior) * fpr
        with np.errstate(invalid="ignore"):
            precision = np.where(accepted > 0, self.prior * recall / accepted, 1.0)
        return {"recall": recall, "fpr": fpr, "precision": precision}


def plug_in(constraint: Constraint, scores: np.ndarray, gold: np.ndarray) -> float:
    """Return the threshold that has the bound on dev itself, without a margin."""
    if constraint.measure == "recall":
        return float(np.quantile(scores[gold], 1 - constraint.bound, method="lower"))
    if constraint.measure == "fpr":
        limit = np.quantile(scores[~gold], 1 - constraint.bound, method="higher")
        return float(np.nextafter(limit, np.inf))
    values, accepted = np.unique(scores, return_counts=True)
    accepted = np.cumsum(accepted[::-1])[::-1]
    right = gold.sum() - np.searchsorted(np.sort(scores[gold]), values)
    good = values[right >= constraint.bound * accepted]
    return float(good[0]) if good.size else np.inf


def simulate(
    rng: np.random.Generator,
    constraint: Constraint,
    classes: Classes,
    size: int,
    samples: int,
) -> tuple[float, float, float, float]:
    """Draw dev sets, and compare both thresholds on new data.

    Returns:
      Shares of dev sets with a broken promise and without one, the price where there is
      one, and the share with which the plug-in threshold misses the bound.
    """
    limits, naive = [], []
    for _ in range(samples):
        gold = rng.random(size) < classes.prior
        scores = classes.draw(rng, gold)
        limits.append(constraint.choose(scores, gold))
        has_any = constraint.available(gold) > 0
        naive.append(plug_in(constraint, scores, gold) if has_any else np.inf)
    promised = np.array([limit is not None for limit in limits])
    safe = classes.measures(np.array(limits, float)[promised])
    plain = classes.measures(np.array(naive))
    sign = -1 if constraint.measure == "fpr" else 1

    def missed(measures: dict[str, np.ndarray]) -> float:
        gap = sign * (measures[constraint.measure] - constraint.bound)
        return float((gap < 0).sum() / samples)

    paid = "precision" if constraint.measure == "recall" else "recall"
    price = np.mean(plain[paid][promised] - safe[paid]) if promised.any() else np.nan
    return missed(safe), 1 - promised.mean(), float(price), missed(plain)


def several(
    rng: np.random.Generator, delta: float, count: int, samples: int, *, shared: bool
) -> tuple[float, float]:
    """Return how often any of several labels breaks its promise: corrected, and not.

    Dev has 300 examples, and labels are correlated where an example is shared.
    """
    constraint = Constraint("recall", BOUNDS["recall"], delta)
    classes, broken = Classes(0.3), np.zeros(2)
    for _ in range(samples):
        effect = rng.normal(size=300) if shared else np.zeros(300)
        worst = np.zeros(2)
        for _ in range(count):
            gold = rng.random(300) < classes.prior
            noise = 0.8 * effect + (0.6 if shared else 1.0) * rng.normal(size=300)
            scores = special.expit(SPREAD * noise + DISTANCE * (gold - 0.5))
            pair = constraint.among(count), constraint
            limits = [x.choose(scores, gold) or 0.0 for x in pair]
            worst = np.maximum(worst, limits)
        broken += classes.measures(worst)["recall"] < constraint.bound
    return broken[0] / samples, broken[1] / samples


def documents(
    rng: np.random.Generator, delta: float, size: int, correlation: float, samples: int
) -> tuple[float, float]:
    """Return how often "complete" is broken, and how often recall of spans would be.

    The latter is a promise of recall that takes spans as independent. Documents have 1
    to 12 spans, whose scores have a correlation.
    """

    def draw(count: int) -> np.ndarray:
        shared = np.sqrt(correlation) * rng.normal(size=(count, 1))
        rest = np.sqrt(1 - correlation) * rng.normal(size=(count, 12))
        spans = special.expit(SPREAD * (shared + rest) + 2)
        spans[np.arange(12) >= rng.integers(1, 13, count)[:, None]] = np.nan
        return spans

    fresh = draw(NEW)
    lowest = np.sort(np.nanmin(fresh, axis=1))
    spans = np.sort(fresh[~np.isnan(fresh)])
    complete, recall = (
        Constraint("complete", 0.9, delta),
        Constraint("recall", 0.9, delta),
    )
    broken = np.zeros(2)
    for _ in range(samples):
        dev = draw(size)
        scores = np.nanmin(dev, axis=1)
        limit = complete.choose(scores, np.ones(size, bool))
        if limit is not None:
            broken[0] += np.searchsorted(lowest, limit) > 0.1 * len(lowest)
        flat = dev[~np.isnan(dev)]
        limit = recall.choose(flat, np.ones(len(flat), bool))
        if limit is not None:
            broken[1] += np.searchsorted(spans, limit) > 0.1 * len(spans)
    return broken[0] / samples, broken[1] / samples


class Corpus(NamedTuple):
    """Documents of 1 to 12 elements, of which effects of the document correlate scores.

    Larger documents are harder. Of the documents some have no positive.

    Attributes:
      with_positives: share of documents in which a third of the elements is positive.
      correlation: of the scores of a document's elements.
    """

    with_positives: float
    correlation: float

    def draw(
        self, rng: np.random.Generator, count: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return scores, gold and documents."""
        sizes = rng.integers(1, 13, count)
        units = np.repeat(np.arange(count), sizes)
        effect = np.sqrt(self.correlation) * rng.normal(size=count)
        noise = np.sqrt(1 - self.correlation) * rng.normal(size=len(units))
        has_some = rng.random(count) < self.with_positives
        gold = has_some[units] & (rng.random(len(units)) < 1 / 3)
        odds = SPREAD * (effect[units] + noise) + DISTANCE * (gold - 0.5)
        return special.expit(odds - 0.1 * sizes[units]), gold, units


CORPORA = tuple(Corpus(*pair) for pair in ((1.0, 0.0), (1.0, 0.5), (0.1, 0.5)))


def in_units(
    rng: np.random.Generator,
    constraint: Constraint,
    corpus: Corpus,
    size: int,
    samples: int,
) -> tuple[float, float, float, float]:
    """Return what `simulate` does for measures that are means over documents."""
    fresh = corpus.draw(rng, min(NEW // 10, 100 * samples))

    def curve(measure: str, sample: tuple[np.ndarray, ...]) -> np.ndarray:
        """Return the measure of the sample by threshold of the grid."""
        scores, gold, units = sample
        if measure == "precision":
            order = np.argsort(-scores)
            counts = len(scores) - np.searchsorted(np.sort(scores), GRID)
            right, accepted = running_shares(gold[order], units[order])
            with np.errstate(invalid="ignore"):
                return right[counts] / accepted[counts]
        among = gold if measure == "recall" else ~gold
        counts = np.bincount(units[among])
        weights = 1 / counts[units[among]] / max((counts > 0).sum(), 1)
        places = np.searchsorted(GRID[::-1], scores[among], side="right")
        below = np.bincount(places, weights, minlength=len(GRID) + 1)
        return 1 - np.cumsum(below)[:-1][::-1]

    def at(values: np.ndarray, limits: np.ndarray) -> np.ndarray:
        return np.interp(limits, GRID[::-1], values[::-1])

    paid = "precision" if constraint.measure == "recall" else "recall"
    bounded, cost = curve(constraint.measure, fresh), curve(paid, fresh)
    sign = -1 if constraint.measure == "fpr" else 1
    safe, plain = np.full(samples, np.nan), np.full(samples, np.nan)
    for place in range(samples):
        sample = corpus.draw(rng, size)
        limit = constraint.choose(*sample)
        safe[place] = np.nan if limit is None else limit
        means = curve(constraint.measure, sample)
        good = GRID[sign * (means - constraint.bound) >= 0]
        if good.size:
            is_least = constraint.measure != "recall"
            plain[place] = good.min() if is_least else good.max()
    sure = ~np.isnan(safe)
    price = at(cost, plain[sure]) - at(cost, safe[sure])
    paid_on_average = float(price.mean()) if sure.any() else np.nan
    broken, missed = (
        float((sign * (at(bounded, limits) - constraint.bound) < 0).mean())
        for limits in (safe, plain)
    )
    return broken, 1 - float(sure.mean()), paid_on_average, missed


def percent(share: float) -> str:
    """Return a share in percent, or a dash for none."""
    return "-" if np.isnan(share) else f"{100 * share:.1f}"


def means(settings: Settings, delta: float) -> Iterator[str]:
    """Yield the lines of means over documents, in percent."""
    yield f"delta {100 * delta:g}%: means over documents, columns as above"
    for measure, bound in BOUNDS.items():
        for corpus in CORPORA:
            cells = ""
            for size in settings.sizes:
                constraint = Constraint(measure, bound, delta)
                rng = np.random.default_rng(size)
                row = in_units(rng, constraint, corpus, size, settings.samples)
                cells += "  " + "".join(f"{percent(x):>6}" for x in row)
            name = f"{100 * corpus.with_positives:g}%, {corpus.correlation:g}"
            yield f"  {measure:9} {name:15} {cells}"


def tables(settings: Settings) -> Iterator[str]:
    """Yield the lines of all tables, in percent."""
    rng, samples = np.random.default_rng(0), settings.samples
    for delta in settings.deltas:
        noise = 3 * np.sqrt(delta * (1 - delta) / samples)
        yield (
            f"delta {100 * delta:g}%, noise of the simulation up to {100 * noise:.1f}: "
            "broken, none, price, plug-in misses"
        )
        yield " " * 28 + "".join(f"{size:>22} dev" for size in settings.sizes)
        kinds = {f"{100 * p:g}% positives": Classes(p) for p in settings.priors}
        kinds["rounded scores"] = Classes(0.3, width=1.0)
        kinds["spoilt scores"] = Classes(0.3, spoilt=0.02)
        for measure, bound in BOUNDS.items():
            for name, classes in kinds.items():
                cells = ""
                for size in settings.sizes:
                    constraint = Constraint(measure, bound, delta)
                    row = simulate(rng, constraint, classes, size, samples)
                    cells += "  " + "".join(f"{percent(x):>6}" for x in row)
                yield f"  {measure:9} {name:15} {cells}"
        yield f"delta {100 * delta:g}%: broken with delta shared, and not"
        for shared in (False, True):
            pair = several(rng, delta, settings.several, samples, shared=shared)
            name = "labels, correlated" if shared else "labels or checkpoints"
            cells = "".join(f"{percent(x):>6}" for x in pair)
            yield f"  {settings.several} {name:24} {cells}"
        yield f"delta {100 * delta:g}%: broken as documents, and as independent spans"
        for correlation in (0.0, 0.5, 0.9):
            for size in settings.sizes[:3]:
                pair = documents(rng, delta, size, correlation, samples)
                cells = "".join(f"{percent(x):>6}" for x in pair)
                yield f"  {size:5} documents, correlation {correlation:g} {cells}"
        yield from means(settings, delta)


def main(argv: Sequence[str] | None = None) -> None:
    """Simulate and print."""
    settings = tyro.cli(Settings, args=argv, description=__doc__)
    if settings.smallest:
        settings = Settings(samples=20, sizes=(50, 200, 300), priors=(0.5,))
    for line in tables(settings):
        print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
