"""Error rates and coverage on runs simulated from known true scores.

A rate of 5 % among 2,000 is found above 131 (6.55 %) with a probability below 0.1 %:
`most_of(2000)`. Every limit here comes from such binomial errors.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from dicejax.study.significance import (
    approximate_randomisation,
    holm,
    nominal_level,
    over_seeds,
    power,
    score,
    seeds_and_items,
    seeds_needed,
)

from ..test_benchmarks import load
from .test_looks import observed

RECALL, SPURIOUS = 0.6, 0.4  # of the baseline; wrong spans per gold span


def most_of(trials, rate=0.05):
    """Return the 99.9 % upper limit of a count at the nominal rate."""
    return stats.binom.ppf(0.999, trials, rate)


def least_of(trials, rate):
    return stats.binom.ppf(0.001, trials, rate)


def runs(rng, seeds, sentences, gains, *, seed_sd, sentence_sd=0.0, spans=(1.0,)):
    """Draw F1 counts, [system, S, N, C, 2], systems differing in recall.

    Recall has an effect of the seed that systems share, one of seed and system, and one
    of sentence and system, and counts are binomial. The number of gold spans in a
    sentence is negative binomial, with the mean `spans` per class.
    """
    systems, classes = len(gains), len(spans)
    gold = rng.poisson(rng.gamma(1.0, spans, (sentences, classes)))
    recall = (
        RECALL
        + np.reshape(gains, (-1, 1, 1))
        + rng.normal(0, seed_sd, (1, seeds, 1))
        + rng.normal(0, seed_sd, (systems, seeds, 1))
        + rng.uniform(-1, 1, (systems, 1, sentences)) * sentence_sd * math.sqrt(3)
    )
    gold = np.broadcast_to(gold, (systems, seeds, sentences, classes))
    right = rng.binomial(gold, np.clip(recall, 0, 1)[..., None])
    wrong = rng.poisson(SPURIOUS * np.asarray(spans), gold.shape)
    return np.stack([2 * right, gold + right + wrong], -1)


def true_score(gain, seed_sd):
    """Compute F1 over all sentences and, by Gauss-Hermite, all seeds."""
    points, weights = np.polynomial.hermite_e.hermegauss(40)
    recall = RECALL + gain + math.sqrt(2) * seed_sd * points
    return np.average(2 * recall / (1 + recall + SPURIOUS), weights=weights)


def exhaustive(*cases):
    cases = (case if isinstance(case, tuple) else (case,) for case in cases)
    return [pytest.param(*case, marks=pytest.mark.exhaustive) for case in cases]


ALONE = (1.0,)


@pytest.mark.parametrize(
    ("losses", "seeds", "seed_sd", "sentence_sd", "spans"),
    [
        (1, 3, 0.03, 0.25, ALONE),
        *exhaustive(
            (1, 2, 0.03, 0.2, ALONE),
            (1, 3, 0.0, 0.0, ALONE),
            (1, 3, 0.05, 0.0, ALONE),
            (1, 5, 0.05, 0.0, ALONE),
            (1, 5, 0.02, 0.2, (1.0, 0.2, 0.03)),  # a macro average with a rare class
            (1, 10, 0.0, 0.25, ALONE),
            (1, 10, 0.05, 0.2, ALONE),
            (3, 3, 0.04, 0.1, ALONE),
            (3, 5, 0.04, 0.1, ALONE),
        ),
        (1, 5, 0.03, 0.25, ALONE),
    ],
)
def test_false_verdicts_are_at_most_5_percent(
    losses, seeds, seed_sd, sentence_sd, spans
):
    rng = np.random.default_rng(seeds)
    sds = {"seed_sd": seed_sd, "sentence_sd": sentence_sd}
    false = 0
    for _ in range(2000):
        baseline, *others = runs(
            rng, seeds, 200, (0,) * (losses + 1), spans=spans, **sds
        )
        p_values = [seeds_and_items(ours, baseline).p_value for ours in others]
        false += min(holm(p_values)) <= 0.05
    print(f"a false verdict among {losses}: {false / 20:.2f} %")
    assert false <= most_of(2000)


@pytest.mark.parametrize(
    ("seeds", "sentence_sd"),
    [(3, 0.25), *exhaustive((3, 0.0), (5, 0.0), (5, 0.25), (10, 0.0), (10, 0.25))],
)
def test_intervals_over_seeds_and_sentences_cover_the_truth(seeds, sentence_sd):
    rng = np.random.default_rng(seeds)
    gain, seed_sd = 0.05, 0.04
    truth = true_score(gain, seed_sd) - true_score(0.0, seed_sd)
    covered, means, variances = 0, [], []
    for _ in range(2000):
        baseline, ours = runs(
            rng, seeds, 200, (0, gain), seed_sd=seed_sd, sentence_sd=sentence_sd
        )
        crossed = seeds_and_items(ours, baseline)
        covered += crossed.low <= truth <= crossed.high
        means.append(crossed.mean)
        variances.append(crossed.seed_error**2 + crossed.sentence_error**2)
    print(f"covered: {covered / 20:.2f} %")
    assert 0.93 <= covered / 2000 <= 0.99
    assert covered >= least_of(2000, 0.95)
    # Deviations of a variance of 2000 means, and of 2000 variances of S seeds.
    four_errors = 4 * math.sqrt(2 / 2000 + 2 / (seeds - 1) / 2000)
    assert np.mean(variances) == pytest.approx(np.var(means), rel=four_errors)


@pytest.mark.parametrize("seeds", [3, *exhaustive(5, 10, 20)])
@pytest.mark.parametrize(
    ("name", "parameters"),
    # Also skewed, with heavy tails, and near a limit.
    [("normal", ()), ("gamma", (1.5,)), ("standard_t", (3,)), ("beta", (8, 1))],
)
def test_intervals_over_seeds_cover_the_truth(seeds, name, parameters):
    draw = getattr(np.random.default_rng(seeds), name)
    ours, baseline = draw(*parameters, size=(2, 2000, seeds))
    intervals = map(over_seeds, ours + 0.3, baseline)
    covered = sum(x.low <= 0.3 <= x.high for x in intervals)
    print(f"covered: {covered / 20:.2f} %")
    assert 0.93 <= covered / 2000 <= 0.99


def test_approximate_randomisation_rejects_5_percent_for_the_same_outputs():
    rng = np.random.default_rng(0)
    p_values = [
        approximate_randomisation(*runs(rng, 1, 200, (0, 0), seed_sd=0), resamples=199)
        for _ in range(2000)
    ]
    rejected = sum(p <= 0.05 for p in p_values)
    print(f"rejected: {rejected / 20:.2f} %")
    assert least_of(2000, 0.05) <= rejected <= most_of(2000)


@pytest.mark.parametrize(
    ("effect", "example", "losses", "looks"),
    [
        (1.6, 0.0, 1, []),
        *exhaustive(
            (0.9, 0.0, 1, []),
            (1.5, 0.3, 1, []),
            (1.5, 0.3, 4, []),
            (1.5, 0.3, 1, [3]),
            (2.0, 0.3, 4, [3, 5]),
        ),
    ],
)
def test_with_the_seeds_needed_the_power_is_80_percent(
    verdicts, effect, example, losses, looks
):
    """The test at the level that `losses` and earlier `looks` leave."""
    examples = 60
    item = math.sqrt(2) * example  # of ours and of the baseline
    rest = math.sqrt(2 * 0.01 / examples)
    planned = observed(effect, math.sqrt(2 + rest**2), 5, item, rest, examples)
    seeds = seeds_needed(planned, looks, comparisons=losses)
    settings = verdicts.Settings(looks=(seeds,), examples=examples)
    noise = verdicts.Noise(example=example)
    level = nominal_level([*looks, seeds], 0.05 / losses)
    drawn = verdicts.comparisons(settings, noise, 1, [effect])
    seen = np.mean([looks[0][0].p_value <= level for looks in drawn])
    print(f"{seeds} seeds, power {100 * seen:.1f} %")
    assert 0.75 <= seen <= 0.85 + 0.05 * (seeds < 8)  # few seeds have large steps


@pytest.mark.parametrize("seeds", [5, *exhaustive(10)])
def test_where_seeds_matter_most_verdicts_have_the_power_of_the_paired_test(seeds):
    rng = np.random.default_rng(seeds)
    gain = {5: 0.12, 10: 0.07}[seeds]
    better, differences = 0, []
    for _ in range(1000):
        baseline, ours = runs(rng, seeds, 400, (0, gain), seed_sd=0.05)
        differences.append(over_seeds(score(ours), score(baseline)))
        crossed = seeds_and_items(ours, baseline)
        better += crossed.p_value <= 0.05 and crossed.mean > 0
    mean = np.mean([x.mean for x in differences])
    sd = math.sqrt(np.mean([seeds * x.seed_error**2 for x in differences]))
    paired = observed(mean, sd, seeds)
    expected = power(paired, mean, seeds, 0.05)
    print(f"better: {better / 10:.1f} %, expected {100 * expected:.1f} %")
    assert 0.5 < expected < 0.9
    assert least_of(1000, expected) <= better <= most_of(1000, expected)


@pytest.fixture
def verdicts(monkeypatch):
    """Return the simulation of whole comparisons."""
    return load("verdicts", monkeypatch)


@pytest.mark.parametrize(
    ("rivals", "settings"),
    [
        (2, {"comparisons": 300, "looks": (3, 4, 5), "examples": 30}),
        *exhaustive((1, {}), (4, {}), (10, {})),
    ],
)
def test_over_all_looks_at_most_5_percent_of_comparisons_claim_falsely(
    verdicts, rivals, settings
):
    for name, noise in verdicts.NOISES.items():
        if settings and name != "normal":
            continue  # all of them with --exhaustive
        simulated = verdicts.Settings(**settings)
        shares = verdicts.false_claims(simulated, noise, rivals)
        print(name, "different {:.2%}, practically equal {:.2%}".format(*shares))
        assert simulated.comparisons * max(shares) <= most_of(simulated.comparisons)


FEW = {"comparisons": 30, "looks": (5,)}
TWO_LOOKS = {"looks": (5, 10)}
FAILING = [f"the last rival fails with probability .{n}" for n in (1, 2, 3)]
FAILING += [f"documents, correlation .{n}" for n in (1, 3)]
FAILING += ["the baseline fails with probability .2"]


@pytest.mark.parametrize(
    ("settings", "rivals", "failing"),
    [
        (FEW, 2, "the last rival fails with probability .2"),
        (FEW, 1, "the baseline fails with probability .2"),
        (FEW, 2, "documents, correlation .3"),
        *exhaustive(*((TWO_LOOKS, n, name) for n in (1, 4) for name in FAILING)),
    ],
)
def test_claims_of_runs_that_learn_hold_and_no_loss_that_failed_is_better(
    verdicts, settings, rivals, failing
):
    simulated = verdicts.Settings(**settings)
    noise = verdicts.FAILING[failing]
    false, failed, unstable = verdicts.failing(simulated, noise, rivals)
    print(f"false {false:.2%}, unstable {unstable:.2%}")
    assert simulated.comparisons * false <= most_of(simulated.comparisons)
    assert failed == 0
    # Any failure of the rival or the baseline is seen, but where all of its runs fail.
    last, chance = max(settings["looks"]), max(noise.fails)
    expected = 1 - (1 - chance) ** last - chance**last
    seen = simulated.comparisons * unstable
    assert least_of(simulated.comparisons, expected) <= seen
    assert seen <= most_of(simulated.comparisons, expected)
    if noise.documents is not None and simulated.comparisons > 1000:
        alone, *_ = verdicts.failing(simulated, noise, rivals, has_groups=False)
        # Examples of a document are not independent.
        assert simulated.comparisons * alone > most_of(simulated.comparisons)


def test_the_simulation_compares_as_the_library(verdicts):
    rng = np.random.default_rng(0)
    ours, baseline = rng.random((2, 5, 40))
    whole = [np.stack([x, np.ones_like(x)], -1)[:, :, None] for x in (ours, baseline)]
    got, expected = verdicts.crossed(ours - baseline), seeds_and_items(*whole)
    for name in ("mean", "seed_error", "sentence_error", "same_seeds_error", "p_value"):
        assert getattr(got, name) == pytest.approx(getattr(expected, name), rel=1e-9)
