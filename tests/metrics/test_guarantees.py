"""Promised bounds hold on new data as often as stated, by exact sums and simulation."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import stats

from dicejax.metrics.bounds import (
    Observation,
    clopper_pearson,
    hoeffding_bentkus,
    least_count,
    mean_interval,
    running_shares,
    tolerance_rank,
)
from dicejax.metrics.guarantees import (
    GRID,
    STARTS,
    Constraint,
    GuaranteedThreshold,
    guarantee_of,
)

REPEATS = 2000


@pytest.mark.parametrize("delta", [0.01, 0.05, 0.1, 0.5])
@pytest.mark.parametrize("share", [0.01, 0.05, 0.3])
def test_the_rank_is_the_largest_with_the_tail_that_is_promised(share, delta):
    ranks = []
    for count in [*range(1, 80), 300, 5000]:
        ranks.append(tolerance_rank(count, share, delta))
        holds = stats.binom.sf(np.arange(count), count, share) >= 1 - delta
        assert ranks[-1] == holds.sum()  # of ranks from 1 on: P(Binomial >= rank)
        if rank := ranks[-1]:  # recall at the k-th order statistic is a Beta
            beta = stats.beta(count - rank + 1, rank)
            assert beta.cdf(1 - share) <= delta * (1 + 1e-9)
    assert least_count(share, delta) == math.ceil(math.log(delta) / math.log1p(-share))
    assert tolerance_rank(0, share, delta) == 0


def violations(constraint, draw, measure):
    """Return how often the chosen threshold breaks the bound, and is chosen at all."""
    chosen = [constraint.choose(*draw()) for _ in range(REPEATS)]
    limits = np.array([limit for limit in chosen if limit is not None])
    values = measure(limits)
    is_rate = constraint.measure == "fpr"
    broken = values > constraint.bound if is_rate else values < constraint.bound
    return broken.sum() / REPEATS, len(limits) / REPEATS


def normals(rng, size, prior, width=0.0, distance=2.0):
    """Return a function that draws scores and gold: N(distance, 1) and N(0, 1).

    With a width they are rounded down to its multiples, so that many are equal.
    """

    def draw():
        gold = rng.random(size) < prior
        scores = rng.normal(size=size) + distance * gold
        return (np.floor(scores / width) * width if width else scores), gold

    return draw


def tail(limits, mean, width):
    """Return the probability of a score from the limit on."""
    if width:
        limits = np.ceil(limits / width - 1e-9) * width
    return stats.norm.sf(limits, mean)


@pytest.mark.parametrize(
    ("size", "prior", "width", "delta"),
    [
        (50, 0.9, 0, 0.1),
        (400, 0.1, 0, 0.05),
        (5000, 0.02, 0, 0.1),
        (400, 0.5, 0.25, 0.05),
    ],
)
@pytest.mark.parametrize("measure", ["recall", "fpr"])
def test_recall_and_false_positive_rate_hold_as_often_as_promised(
    measure, size, prior, width, delta
):
    rng = np.random.default_rng(size)
    if measure == "fpr":
        prior = 1 - prior
    constraint = Constraint(measure, {"recall": 0.9, "fpr": 0.1}[measure], delta)
    mean = {"recall": 2.0, "fpr": 0.0}[measure]
    draw = normals(rng, size, prior, width)
    rate, attained = violations(constraint, draw, lambda t: tail(t, mean, width))
    noise = 3 * math.sqrt(delta * (1 - delta) / REPEATS)
    assert attained > 0.95
    assert rate <= delta + noise
    if width:
        return
    # Without ties the probability is exact: the promise costs no more than it must.
    count, exact = prior if measure == "recall" else 1 - prior, []
    for number in rng.binomial(size, count, REPEATS):
        rank = tolerance_rank(number, 0.1, delta)
        exact.append(stats.binom.cdf(rank - 1, number, 0.1) if rank else 0.0)
    # The middle of a gap is a little safer than the order statistic itself.
    assert np.mean(exact) - 2 * noise - 0.3 * delta < rate < np.mean(exact) + noise


@pytest.mark.parametrize(
    ("size", "prior", "width", "spoilt", "delta"),
    [
        (200, 0.5, 0, 0, 0.1),
        (2000, 0.1, 0, 0, 0.05),
        (400, 0.5, 0.5, 0, 0.05),
        (2000, 0.2, 0, 0.02, 0.1),
    ],
)
def test_precision_holds_as_often_as_promised(size, prior, width, spoilt, delta):
    rng, constraint = np.random.default_rng(size), Constraint("precision", 0.8, delta)

    def draw():
        gold = rng.random(size) < prior
        logits = rng.normal(size=size) + 3 * gold - 1.5
        if width:
            logits = np.floor(logits / width) * width
        # Negatives with high scores: precision falls where the threshold rises.
        logits[~gold & (rng.random(size) < spoilt)] = 4.0
        return 1 / (1 + np.exp(-logits)), gold

    def precision(limits):
        limits = np.log(limits / (1 - limits))
        right = prior * tail(limits, 1.5, width)
        wrong = (1 - spoilt) * tail(limits, -1.5, width) + spoilt * (limits <= 4)
        return right / (right + (1 - prior) * wrong)

    rate, attained = violations(constraint, draw, precision)
    assert attained > 0.5
    assert rate <= delta + 3 * math.sqrt(delta / REPEATS)


def test_tests_of_precision_are_sequences_from_each_start():
    rng = np.random.default_rng(5)
    gold = rng.random(1500) < 0.3
    scores = 1 / (1 + np.exp(-(rng.normal(size=1500) + 4 * gold - 2)))
    constraint = Constraint("precision", 0.9, 0.1)
    accepted = []
    for start in STARTS:
        # Alone with its share until it comes to the next start, whose share it takes.
        for place in range(start, len(GRID)):
            taken = scores >= GRID[place]
            right, total = int(gold[taken].sum()), int(taken.sum())
            p_value = (
                stats.binomtest(right, total, 0.9, "greater").pvalue if total else 1
            )
            shares = sum(start <= each <= place for each in STARTS)
            if p_value > 0.1 / len(STARTS) * shares:
                break
            accepted.append(GRID[place])
    assert constraint.choose(scores, gold) == min(accepted)
    assert constraint.choose(scores[:40], gold[:40]) is None
    assert "accepted on dev are right" in constraint.shortfall(scores[:40], gold[:40])


def test_spans_of_a_document_may_depend_on_each_other():
    rng, delta = np.random.default_rng(7), 0.1

    def documents(count):
        """Return the lowest score of the spans of each document, all correlated."""
        spans = rng.normal(size=(count, 8)) + 2 * rng.normal(size=(count, 1))
        spans[np.arange(8) >= rng.integers(1, 9, count)[:, None]] = np.inf
        spans[:, 0][rng.random(count) < 0.01] = -np.inf  # no candidate
        return spans.min(axis=1)

    fresh = np.sort(documents(400_000))
    constraint = Constraint("complete", 0.9, delta)
    rate, attained = violations(
        constraint,
        lambda: (documents(120), np.ones(120)),
        lambda limits: 1 - np.searchsorted(fresh, limits) / len(fresh),
    )
    assert attained == 1 and 0.2 * delta < rate <= delta + 0.02
    lost = constraint.shortfall([-math.inf] * 9 + [0.5] * 11, [1] * 20)
    assert lost == "9 of 20 examples with spans have one never proposed"


def in_documents(rng, count, size=6):
    """Draw gold, log-odds and documents, which gold and scores depend on."""
    sizes = rng.integers(1, size + 1, count)
    units = np.repeat(np.arange(count), sizes)
    easy = rng.normal(size=count)[units]  # a larger document is harder
    gold = rng.random(len(units)) < 1 / (1 + np.exp(easy))
    odds = rng.normal(size=len(units)) + 2 * gold + easy - 0.2 * sizes[units]
    return odds, gold, units


def mean_share(hits, among, units):
    """Return the mean over documents by a loop."""
    rows = [hits[among & (units == unit)] for unit in np.unique(units[among])]
    return sum(row.mean() for row in rows) / len(rows), len(rows)


def p_value(mean, count, bound):
    """Return the p-value of Hoeffding and Bentkus by scipy.stats."""
    divergence = stats.entropy([mean, 1 - mean], [bound, 1 - bound])
    below = math.e * stats.binom.cdf(math.ceil(count * mean - 1e-9), count, bound)
    return min(math.exp(-count * divergence) if mean < bound else 1, below)


@pytest.mark.parametrize("measure", ["recall", "fpr"])
@pytest.mark.parametrize("seed", range(2))
def test_no_threshold_of_documents_is_better_than_the_chosen(measure, seed):
    odds, gold, units = in_documents(np.random.default_rng(seed), 80)
    odds = np.round(odds, 1)  # ties
    is_rate = measure == "fpr"
    among = ~gold if is_rate else gold
    allowed = []
    for limit in np.unique(odds):
        hits = odds >= limit if is_rate else odds < limit
        if p_value(*mean_share(hits, among, units), 0.2) <= 0.1:
            allowed.append(limit)
    constraint = Constraint(measure, 0.2 if is_rate else 0.8, 0.1)
    limit = constraint.choose(odds, gold, units)
    best = min(allowed) if is_rate else max(allowed)
    assert np.array_equal(odds >= limit, odds >= best)
    observed = constraint.observe(odds, gold, limit, units, "documents")
    share, count = mean_share(odds >= limit, among, units)
    assert observed.value == pytest.approx(share) and observed[1:] == (
        count,
        "documents",
    )
    assert constraint.available(gold, units) == count


def test_shares_of_accepted_are_those_of_a_loop_over_documents():
    odds, gold, units = in_documents(np.random.default_rng(6), 60)
    scores = 1 / (1 + np.exp(-np.round(odds, 1)))
    order = np.argsort(-scores)
    sums, counts = running_shares(gold[order], units[order])
    chosen = Constraint("precision", 0.5).choose(scores, gold, units)
    level, allowed = 0.0, []
    for place, limit in enumerate(GRID):
        taken = scores >= limit
        level += 0.1 / len(STARTS) * (place in STARTS)
        if taken.any():
            share, number = mean_share(gold, taken, units)
            assert sums[taken.sum()] == pytest.approx(share * number)
            assert counts[taken.sum()] == number
            is_shown = p_value(1 - share, number, 0.5) <= level
        level = level if taken.any() and is_shown else 0.0
        allowed += [limit] * (level > 0)
    assert chosen == min(allowed)


@pytest.mark.parametrize(("mean", "count"), [(0.0, 30), (0.3, 7), (0.9, 400), (1.0, 5)])
def test_the_interval_of_a_mean_ends_where_the_p_value_does(mean, count):
    low, high = mean_interval(mean, count)
    assert low <= mean <= high
    for loss, bound in ((mean, high), (1 - mean, 1 - low)):
        if bound < 1:
            assert hoeffding_bentkus(loss, count, bound) == pytest.approx(0.025, 1e-6)
            assert p_value(loss, count, bound) == pytest.approx(0.025, 1e-6)
        else:
            assert loss == 1


@pytest.mark.parametrize("count", [3, 40, 300])
def test_the_p_value_is_valid_and_exact_without_a_loss(count):
    hits = np.arange(count + 1)
    for bound in (0.05, 0.3):
        values = [hoeffding_bentkus(k / count, count, bound) for k in hits]
        assert values[0] == pytest.approx((1 - bound) ** count)
        assert (np.diff(values) >= 0).all()
        for delta in (0.01, 0.05, 0.1):
            broken = stats.binom.pmf(hits, count, bound)[np.array(values) <= delta]
            assert broken.sum() <= delta
    assert hoeffding_bentkus(0.0, 0, 0.1) == 1.0  # of nothing


@pytest.mark.parametrize("measure", ["recall", "fpr", "precision"])
def test_shares_of_documents_hold_as_often_as_promised(measure):
    rng, delta = np.random.default_rng(11), 0.1
    bound = 0.3 if measure == "fpr" else 0.7
    constraint = Constraint(measure, bound, delta)

    def chance(odds):
        return 1 / (1 + np.exp(-odds))

    limits, repeats = [], 25 if measure == "precision" else 200
    for _ in range(repeats):
        odds, gold, units = in_documents(rng, 400)
        limits.append(constraint.choose(chance(odds), gold, units))
    odds, gold, units = in_documents(rng, 10_000)
    limits = [limit for limit in limits if limit is not None]
    values = np.array(
        [constraint.observe(chance(odds), gold, t, units).value for t in limits]
    )
    assert len(limits) > repeats / 2
    broken = values > bound if measure == "fpr" else values < bound
    noise = 3 * math.sqrt(delta * (1 - delta) / repeats)
    assert broken.sum() / repeats <= delta + noise


@pytest.mark.parametrize("corrected", [True, False])
def test_labels_and_checkpoints_share_delta(corrected):
    """The worst of several thresholds: what dev's choice of a checkpoint may be."""
    rng, delta, count = np.random.default_rng(3), 0.1, 4
    constraint = Constraint("recall", 0.9, delta)
    if corrected:
        constraint = constraint.among(count)
    draw, limits = normals(rng, 200, 1.0), np.empty((REPEATS, count))
    for row in limits:
        row[:] = [constraint.choose(*draw()) for _ in range(count)]
    rate = (stats.norm.sf(limits.max(axis=1), 2) < 0.9).mean()
    if corrected:
        assert 0.02 < rate <= delta + 3 * math.sqrt(delta * (1 - delta) / REPEATS)
    else:
        assert rate > 2 * delta


@pytest.mark.parametrize("measure", ["recall", "fpr"])
def test_thresholds_on_few_scores_by_hand(measure):
    # Of 7 scores the lowest may be missed: 0.7^7 < 0.1 < P(at most 1 of 7).
    scores = np.array([0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.1])
    gold = np.arange(8) < 7
    if measure == "recall":
        limit = Constraint("recall", 0.7).choose(scores, gold)
        assert limit == pytest.approx(0.15)  # halfway to the score below
        assert Constraint("recall", 0.7).choose(scores[:7], gold[:7]) == 0.2
        assert Constraint("recall", 0.7).choose(scores[1:], gold[1:]) is None
    else:
        limit = Constraint("fpr", 0.3).choose(1 - scores, ~gold)
        assert limit == pytest.approx(0.85)
        limit = Constraint("fpr", 0.3).choose(1 - scores[:7], ~gold[:7])
        assert limit == np.nextafter(0.8, 1) and not (1 - scores[:7] >= limit).any()
    observed = Constraint("recall", 0.7).observe(scores, gold, 0.35)
    assert observed == Observation(5, 7)
    assert Constraint("precision", 0.7).observe(scores, ~gold, 0.35)[:2] == (0, 5)
    assert Constraint("fpr", 0.7).observe(scores, ~gold, 0.35)[:2] == (5, 7)


def test_too_few_examples_are_counted():
    lack = Constraint("recall", 0.95).lack([1] * 41 + [0] * 9)
    assert lack == "41 positives on dev, and it takes 45"
    assert Constraint("recall", 0.95).lack([1] * 45) is None
    assert Constraint("fpr", 0.01, 0.05).lack([1]) == (
        "0 negatives on dev, and it takes 299"
    )
    assert "it takes at least 110" in Constraint("precision", 0.95).lack([1])
    exact = math.log(0.1 / len(STARTS)) / math.log(0.95)
    assert Constraint("precision", 0.95).required == math.ceil(exact)
    # So many that are all accepted and right are enough, and no fewer.
    for count in (109, 110):
        chosen = Constraint("precision", 0.95).choose([0.9] * count, [1] * count)
        assert (chosen is None) == (count == 109)


@pytest.mark.parametrize(("hits", "total"), [(0, 1), (3, 7), (7, 7), (178, 186)])
def test_the_interval_is_that_of_scipy(hits, total):
    expected = stats.binomtest(hits, total).proportion_ci(0.95, "exact")
    assert clopper_pearson(hits, total) == pytest.approx(tuple(expected), rel=1e-9)
    record = Observation(hits, total).to_json()
    assert (record["low"], record["high"]) == clopper_pearson(hits, total)
    assert record["value"] == hits / total


@pytest.mark.parametrize(
    ("text", "delta", "message"),
    [
        ("recall", 0.1, "want it as recall:0.95, not 'recall'"),
        ("recall:high", 0.1, "not 'recall:high'"),
        ("f1:0.9", 0.1, "'f1' is not a measure; want recall, precision"),
        ("recall:95", 0.1, "bound is 95; want it between 0 and 1"),
        ("fpr:0", 0.1, "bound is 0;"),
        ("fpr:nan", 0.1, "bound is nan;"),
        ("recall:0.9", 1.0, "delta is 1;"),
    ],
)
def test_what_is_no_constraint_is_named(text, delta, message):
    with pytest.raises(ValueError, match=message):
        Constraint.parse(text, delta)


def test_what_is_promised_and_observed_is_written_out():
    person = guarantee_of(
        {
            "threshold": {"PER": 0.25},
            **dataclasses.asdict(Constraint.parse("recall:0.95:PER")),
            **{"checkpoints": 1, "default_threshold": 0.5, "unattained": {}},
        }
    )
    assert str(person) == (
        "threshold 0.25, recall at least 0.95 of 'PER' on new data with probability 0.9"
    )
    text = "recall of 'PER' on test 0.900 (0.734 to 0.979) as the mean of 40 documents"
    share = Observation(36.0, 40, "documents")
    assert Observation.from_json(share.to_json()) == share
    assert person.compare({"PER": share}) == f"{text}; promised 0.95"
    record = {"bound": 0.01, "measure": "fpr", "delta": 0.05, "checkpoints": 3}
    record |= {"default_threshold": 0.5, "unattained": {"b": "why"}}
    chosen = guarantee_of({**record, "threshold": {"a": 0.25, "c": 0.75}})
    assert str(chosen) == (
        "thresholds 0.25 to 0.75, fpr at most 0.01 of each label on new data with "
        "probability 0.95; fpr at most 0.01 of 'b' cannot be promised: why; the "
        "default threshold 0.5 decides"
    )
    shares = {"a": Observation(1, 100), "c": Observation(2, 100)}
    assert chosen.compare(shares) == (
        "fpr on test 0.020 (0.002 to 0.070), worst of 2 labels, 'c'; promised 0.01"
    )
    empty = GuaranteedThreshold(0.5, "precision", 0.9, 0.1, 1, 0.5, {})
    assert empty.compare({"a": Observation(0, 0)}) == (
        "precision of 'a' on test of no example; promised 0.9"
    )
    assert guarantee_of(None) is None and guarantee_of({"threshold": 0.5}) is None
