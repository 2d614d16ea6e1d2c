"""Simulate comparisons with known truth: error rates, power, and seeds spent.

Scores are means over test examples of: true mean + effect of the seed + effect of the
example, shared by all losses and of the loss + rest. Differences are in units of the
standard deviation of a seed's effect. For each number of rivals and kind of noise:

- false claims: any verdict of better or worse among rivals without a difference, at any
  of several looks; and any verdict of practically equal at the margin;
- power at each look for one rival that differs, next to the paired t test with Holm's
  correction at a fixed number of seeds; once more where the last rival collapses with
  some seeds, that is varies 20 times as much;
- seeds spent by `--until decided`, vs. a fixed number;
- where a loss fails in some runs, which then lose all or a part of their score, or
  where examples come in documents: false claims among runs that learn, any verdict of
  better where a run failed, whether that was seen or not, and shares of comparisons
  with an unstable loss. The first of these comparisons are made by the package itself
  too, from scores of runs to verdicts, which have to agree;
- the power of the same where all runs learn, by how much seeds vary: a run that is only
  unlucky must not be taken for one that failed; and how often a rival that gains, and
  loses a third at times, is called better.

usage:    python benchmarks/verdicts.py [--smallest]
measured: see benchmarks/README.md
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tyro
from scipy import special, stats

from dicejax.study.compare.failures import far_below
from dicejax.study.compare.jobs import ScoredRun
from dicejax.study.compare.testing import contrasts
from dicejax.study.compare.until import FUTILE, LOOKS
from dicejax.study.significance import (
    CrossedDifference,
    holm,
    sequential_p_value,
    shrink_variances,
)
from dicejax.study.significance.crossed import PRIOR_FREEDOM

LEVEL = 0.05
DOCUMENT = 15  # examples
CHECKED = 10  # comparisons of each kind that the package makes once more


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """Sizes of the simulation.

    Args:
      comparisons: simulated comparisons of each kind.
      examples: size of the test set.
      looks: numbers of seeds at which results are looked at.
      rivals: numbers of losses compared with the baseline.
      gain: of the rival that differs, for the power.
      smallest: smoke test with the smallest sizes.
    """

    comparisons: int = 2000
    examples: int = 60
    looks: tuple[int, ...] = (3, 5, 10, 20)
    rivals: tuple[int, ...] = (1, 4, 10)
    gain: float = 2.5
    smallest: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Noise:
    """Noise of the scores.

    Attributes:
      tails: of seeds' effects: normal, or Student's t with 3 degrees of freedom.
      spreads: standard deviations of seeds' effects: of the baseline, of the rivals but
        the last, and of the last.
      last: share of the rivals that vary as the last, at least one.
      shared: share of a seed's effect that all losses have in common.
      example: standard error of a loss's mean for new examples, if they were
        independent.
      fails: probabilities that a run fails: of the baseline, and of the last rivals.
      loses: share of its score that a failed run loses.
      learnt: mean score of a run that learns, in standard deviations of a seed.
      documents: correlation of examples in a document; None without documents.
    """

    tails: str = "normal"
    spreads: tuple[float, float, float] = (1.0, 1.0, 1.0)
    last: float = 0.0
    shared: float = 0.0
    example: float = 0.0
    fails: tuple[float, float] = (0.0, 0.0)
    loses: float = 1.0
    learnt: float = 70.0
    documents: float | None = None


NOISES = {
    "normal": Noise(),
    "heavy tails": Noise(tails="t"),
    "the last rival varies 4 times as much": Noise(spreads=(1, 1, 4)),
    "the last rival varies 20 times as much": Noise(spreads=(1, 1, 20)),
    "half of the rivals vary 6 times as much": Noise(spreads=(1, 1, 6), last=0.5),
    "the baseline varies 3 times as much": Noise(spreads=(3, 1, 1)),
    "half of it shared by a seed": Noise(shared=0.5),
    "correlated examples": Noise(example=0.3),
    "few, correlated examples": Noise(example=1.0),
}
PARTS = {"a third": 1 / 3, "half": 1 / 2}
"""Shares of its score that a collapsed run loses."""
FAILING = {
    "the last rival fails with probability .1": Noise(fails=(0, 0.1)),
    "the last rival fails with probability .2": Noise(fails=(0, 0.2)),
    "the last rival fails with probability .3": Noise(fails=(0, 0.3)),
    "the baseline fails with probability .2": Noise(fails=(0.2, 0)),
    **{
        f"the {who} loses {part} with probability {str(chance)[1:]}": Noise(
            fails=(chance, 0) if who == "baseline" else (0, chance), loses=loses
        )
        for who in ("last rival", "baseline")
        for part, loses in PARTS.items()
        for chance in (0.1, 0.2)
    },
    "documents, correlation .1": Noise(example=1.0, documents=0.1),
    "documents, correlation .3": Noise(example=1.0, documents=0.3),
}


def drawn(
    rng: np.random.Generator,
    settings: Settings,
    noise: Noise,
    rivals: int,
    gains: Sequence[float],
) -> np.ndarray:
    """Draw scores, the baseline's first, [rival + 1, seed, example]."""
    seeds, examples = max(settings.looks), settings.examples

    def effects(*shape: int) -> np.ndarray:
        if noise.tails == "normal":
            return rng.normal(size=shape)
        return rng.standard_t(3, size=shape) / math.sqrt(3)

    spread = np.full((rivals + 1, 1), noise.spreads[1])
    spread[0] = noise.spreads[0]
    spread[-max(int(noise.last * rivals), 1) :] = noise.spreads[2]
    of_seed = math.sqrt(noise.shared) * effects(1, seeds)
    of_seed = of_seed + math.sqrt(1 - noise.shared) * effects(rivals + 1, seeds)
    of_example = rng.normal(size=(rivals + 1, 1, examples))
    if noise.documents:
        of_document = rng.normal(size=(rivals + 1, 1, examples // DOCUMENT))
        of_example *= math.sqrt(1 - noise.documents)
        of_example += math.sqrt(noise.documents) * of_document.repeat(DOCUMENT, -1)
    of_example *= noise.example * math.sqrt(examples)
    rest = rng.normal(size=(rivals + 1, seeds, examples)) * 0.1
    scores = (spread * of_seed)[..., None] + of_example + rest
    scores[1:] += np.reshape(gains, (-1, 1, 1))
    return scores


def crossed(differences: np.ndarray) -> CrossedDifference:
    """Return the comparison of scores that are means, from [seed, example].

    As `seeds_and_items`, whose jackknife influences are deviations from the mean here.
    """
    seeds, examples = differences.shape
    of_seeds, of_examples = differences.mean(1), differences.mean(0)
    rest = differences - of_seeds[:, None] - (of_examples - of_examples.mean())
    rest = np.square(rest).sum() / ((seeds - 1) * (examples - 1) * seeds * examples)
    alone = of_examples.var(ddof=1) / examples
    return CrossedDifference(
        float(of_seeds.mean()),
        seeds,
        examples,
        float(of_seeds.std(ddof=1)) / math.sqrt(seeds),
        math.sqrt(max(alone - rest, 0)),
        math.sqrt(alone),
        freedom=seeds - 1,
    )


def comparisons(
    settings: Settings, noise: Noise, rivals: int, gains: Sequence[float]
) -> Iterator[list[list[CrossedDifference]]]:
    """Yield the differences of simulated comparisons, [look][rival]."""
    rng = np.random.default_rng([rivals, len(noise.tails)])
    for _ in range(settings.comparisons):
        scores = drawn(rng, settings, noise, rivals, gains)
        differences = scores[1:] - scores[0]
        yield [
            [crossed(rows[:seeds]) for rows in differences] for seeds in settings.looks
        ]


def adjusted(p_values: np.ndarray, looks: Sequence[int]) -> np.ndarray:
    """Return p-values over looks and rivals, [look, rival], as at each look."""
    return np.stack(
        [
            holm(sequential_p_value(p_values[: j + 1], looks[: j + 1]))
            for j in range(len(looks))
        ]
    )


def claims(by_look: list[list[CrossedDifference]], looks: Sequence[int]) -> np.ndarray:
    """Return whether each rival is claimed to differ, [look, rival]."""
    p_values = [
        [difference.p_value for difference in shrink_variances(at_look)]
        for at_look in by_look
    ]
    return adjusted(np.array(p_values), looks) <= LEVEL


def equalities(
    by_look: list[list[CrossedDifference]], looks: Sequence[int], margin: float
) -> np.ndarray:
    """Return whether each rival is claimed to be practically equal, [look, rival]."""
    p_values = [
        [difference.p_equal(margin) for difference in shrink_variances(at_look)]
        for at_look in by_look
    ]
    return adjusted(np.array(p_values), looks) <= LEVEL


def false_claims(settings: Settings, noise: Noise, rivals: int) -> tuple[float, float]:
    """Return the rates of comparisons with a false difference, or a false equality."""
    looks = settings.looks
    nothing = comparisons(settings, noise, rivals, [0.0] * rivals)
    different = [claims(by_look, looks).any() for by_look in nothing]
    margin = 1.5 * max(noise.spreads) + 3 * noise.example
    at_margin = comparisons(settings, noise, rivals, [margin] * rivals)
    equal = [equalities(by_look, looks, margin).any() for by_look in at_margin]
    return float(np.mean(different)), float(np.mean(equal))


def scores_of(
    settings: Settings, noise: Noise, rivals: int, gain: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Draw scores of simulated comparisons, [comparison, rival + 1, seed, example].

    The first rival gains, and the others do not differ. The second result is which runs
    failed, [comparison, rival + 1, seed].
    """
    rng = np.random.default_rng([rivals, len(noise.tails)])
    gains = [gain, *[0.0] * (rivals - 1)]
    chances = np.zeros((rivals + 1, 1))
    chances[0], chances[-max(int(noise.last * rivals), 1) :] = noise.fails
    all_scores, all_failed = [], []
    for _ in range(settings.comparisons):
        scores = noise.learnt + drawn(rng, settings, noise, rivals, gains)
        has_failed = rng.random(scores.shape[:2]) < chances
        scores[has_failed] *= 1 - noise.loses
        all_scores.append(scores)
        all_failed.append(has_failed)
    return np.stack(all_scores), np.stack(all_failed)


def outcomes_by_look(scores: np.ndarray, looks: Sequence[int]) -> np.ndarray:
    """Return the verdicts of comparisons, [comparison, look, rival], as the package's.

    They are better, worse, unstable or inconclusive; `in_the_package` checks them.
    """
    means, differences = scores.mean(-1), scores[:, 1:] - scores[:, :1]
    found, p_values = [], []
    for look, seeds in enumerate(looks, start=1):
        crossed_ = _all_crossed(differences[:, :, :seeds])
        p_values.append(crossed_.p_value)
        sequential = sequential_p_value(p_values, looks[:look])
        claimed = np.stack([holm(each) for each in sequential]) <= LEVEL
        outcomes = np.where(crossed_.mean > 0, "better", "worse")
        outcomes = np.where(claimed, outcomes, "inconclusive")
        failed = far_below(means[:, :, :seeds]) | (means[:, :, :seeds] == 0)
        unstable = failed.any(-1) & ~failed.all(-1)
        outcomes[unstable[:, 1:] | unstable[:, :1]] = "unstable"
        found.append(outcomes)
    return np.stack(found, 1)


class _Crossed(NamedTuple):
    mean: np.ndarray
    p_value: np.ndarray


def _all_crossed(differences: np.ndarray) -> _Crossed:
    """Return means and p-values, [comparison, rival], with borrowed variances.

    As `crossed`, `shrink_variances` and `CrossedDifference.p_value`, for all at once.
    """
    _, rivals, seeds, examples = differences.shape
    of_seeds, of_examples = differences.mean(3), differences.mean(2)
    alone = of_examples.var(2, ddof=1) / examples
    rest = differences - of_seeds[..., None] - of_examples[:, :, None]
    rest = np.square(rest + of_examples.mean(2)[..., None, None]).sum((2, 3))
    rest /= (seeds - 1) * (examples - 1) * seeds * examples
    variance, freedom = (
        of_seeds.var(2, ddof=1),
        np.full(of_seeds.shape[:2], seeds - 1.0),
    )
    prior, median = (
        min(PRIOR_FREEDOM, (rivals - 1) / 2),
        np.median(variance, 1)[:, None],
    )
    borrows = (variance <= median) & (prior > 0)
    shrunk = (prior * median + freedom * variance) / (prior + freedom)
    variance = np.where(borrows, shrunk, variance)
    freedom = freedom + prior * borrows
    mean, new = of_seeds.mean(2), np.maximum(alone - rest, 0)

    def half(log_p: np.ndarray) -> np.ndarray:
        of_seed = special.stdtrit(freedom, np.exp(log_p) / 2) ** 2 * variance / seeds
        return of_seed + special.stdtrit(examples - 1, np.exp(log_p) / 2) ** 2 * new

    low, high = np.full(mean.shape, -300.0), np.zeros(mean.shape)
    for _ in range(60):
        middle = (low + high) / 2
        is_wide = half(middle) > mean**2
        low, high = np.where(is_wide, middle, low), np.where(is_wide, high, middle)
    of_examples_alone = 2 * special.stdtr(examples - 1, -np.abs(mean) / np.sqrt(alone))
    return _Crossed(mean, np.maximum(np.exp(high), of_examples_alone))


def in_the_package(
    scores: np.ndarray, looks_at: Sequence[int], groups: np.ndarray | None
) -> list[list[str]]:
    """Return the verdicts of one comparison by the package, [look][rival]."""
    names = ["ce", *(f"rival {number}" for number in range(len(scores) - 1))]
    looks: list[dict[str, list[int]]] = []
    results = []
    for seeds in looks_at:
        outcomes = {
            name: [
                ScoredRun(
                    *(name, seed, "", "finished"),
                    {"primary_metric": "f1", "test": {"f1": float(run.mean())}},
                    np.stack([run, np.ones_like(run)], -1)[:, None],
                    groups=groups,
                )
                for seed, run in enumerate(of_loss[:seeds])
            ]
            for name, of_loss in zip(names, scores, strict=True)
        }
        against = contrasts(outcomes, "ce", names[1:], names[1:], looks=looks)
        results.append([against[name].verdict.outcome for name in names[1:]])
        looks = [*looks, {name: list(range(seeds)) for name in names[1:]}]
    return results


def simulated(
    settings: Settings,
    noise: Noise,
    rivals: int,
    *,
    gain: float = 0.0,
    has_groups: bool = True,
) -> tuple[np.ndarray, np.ndarray]:
    """Return verdicts, [comparison, look, rival], and whether a run of either failed.

    The first comparisons are made once more by the package itself.
    """
    if noise.documents is not None:
        settings = dataclasses.replace(settings, examples=10 * DOCUMENT)
    scores, failed = scores_of(settings, noise, rivals, gain)
    items, groups = scores, None
    if noise.documents is not None and has_groups:
        groups = np.arange(settings.examples) // DOCUMENT
        items = scores.reshape(*scores.shape[:3], -1, DOCUMENT).mean(-1)
    outcomes = outcomes_by_look(items, settings.looks)
    for ours, one in zip(outcomes[:CHECKED], scores, strict=False):
        theirs = in_the_package(one, settings.looks, groups)
        if ours.tolist() != theirs:
            raise SystemExit(f"the package says {theirs}, the simulation {ours}")
    has_failed = np.stack(
        [
            failed[:, 1:, :seeds].any(-1) | failed[:, :1, :seeds].any(-1)
            for seeds in settings.looks
        ],
        1,
    )
    return outcomes, has_failed


def failing(
    settings: Settings, noise: Noise, rivals: int, *, has_groups: bool = True
) -> tuple[float, float, float]:
    """Return rates of comparisons with failures or documents, over all looks.

    Those with a false claim among the runs that learn, those with a loss that is called
    better though it or the baseline failed, and those with an unstable loss at the last
    look.
    """
    outcomes, failed = simulated(settings, noise, rivals, has_groups=has_groups)
    claimed = np.isin(outcomes, ("better", "worse")).any((1, 2))
    though_failed = ((outcomes == "better") & failed).any((1, 2))
    unstable = (outcomes[:, -1] == "unstable").any(1)
    rates = (claimed, though_failed, unstable)
    false, better, last = (float(rate.mean()) for rate in rates)
    return false, better, last


def better_though_it_collapses(
    settings: Settings, noise: Noise
) -> tuple[float, float, float]:
    """Return how often a rival that gains, and fails at times, is called better.

    At any look; then the same though a run has failed, and where no run has failed.
    """
    outcomes, failed = simulated(settings, noise, 1, gain=settings.gain)
    is_better, has_failed = outcomes[..., 0] == "better", failed[..., 0]
    called = is_better.any(1).mean(), (is_better & has_failed).any(1).mean()
    return float(called[0]), float(called[1]), float((~has_failed[:, -1]).mean())


def power_of_verdicts(
    settings: Settings, noise: Noise, rivals: int
) -> tuple[list[float], float]:
    """Return how often a gain is found where all runs learn, by look.

    The second is how often a loss is called unstable at any look.
    """
    outcomes, _ = simulated(settings, noise, rivals, gain=settings.gain)
    found = (outcomes[:, :, 0] == "better").mean(0).tolist()
    return found, float((outcomes == "unstable").any((1, 2)).mean())


def power(settings: Settings, noise: Noise, rivals: int) -> dict[str, np.ndarray]:
    """Return how often the rival that differs is found, by way of testing and look."""
    gains = [settings.gain, *[0.0] * (rivals - 1)]
    rates: dict[str, list[np.ndarray]] = {}
    for by_look in comparisons(settings, noise, rivals, gains):
        t_tests, plain, borrowed = [], [], []
        for at_look in by_look:
            t = [abs(difference.mean) / difference.seed_error for difference in at_look]
            t_tests.append(holm(2 * stats.t.sf(t, at_look[0].seeds - 1))[0])
            plain.append(holm([difference.p_value for difference in at_look])[0])
            borrowed.append(
                holm([difference.p_value for difference in shrink_variances(at_look)])[
                    0
                ]
            )
        for name, p_values in (
            ("paired t test, fixed seeds", t_tests),
            ("and test examples", plain),
            ("and borrowed variances", borrowed),
        ):
            rates.setdefault(name, []).append(np.array(p_values) <= LEVEL)
        over_looks = claims(by_look, settings.looks)[:, 0]
        rates.setdefault("and valid at all looks: compare", []).append(over_looks)
    return {name: np.mean(outcomes, axis=0) for name, outcomes in rates.items()}


def spent(settings: Settings, noise: Noise, rivals: int) -> dict[str, np.ndarray]:
    """Return runs, found gains and false claims of a fixed number and of `--until`.

    One rival is better by `gain`, half of the others are far worse, as rivals that do
    not learn, and the rest differ by nothing.
    """
    fixed = 10
    looks = tuple(look for look in LOOKS if look <= 2 * fixed)
    worse = rivals // 2
    gains = [settings.gain, *[-8.0] * worse, *[0.0] * (rivals - 1 - worse)]
    nothing = np.array(gains) == 0
    settings = dataclasses.replace(settings, looks=tuple(sorted({*looks, fixed})))
    places = [settings.looks.index(look) for look in looks]
    results: dict[str, list[tuple[float, float, float]]] = {"ten": [], "until": []}
    for at_all in comparisons(settings, noise, rivals, gains):
        at_ten = shrink_variances(at_all[settings.looks.index(fixed)])
        claimed = holm([difference.p_value for difference in at_ten]) <= LEVEL
        runs = fixed * (1 + rivals)
        results["ten"].append((runs, claimed[0], (claimed & nothing).any()))
        at_looks = [shrink_variances(at_all[place]) for place in places]
        different = adjusted(
            np.array([[difference.p_value for difference in row] for row in at_looks]),
            looks,
        )
        equal = adjusted(
            np.array(
                [[difference.p_equal(0.5) for difference in row] for row in at_looks]
            ),
            looks,
        )
        hopeless = [
            [difference.mean + difference.half(FUTILE) < 0 for difference in row]
            for row in at_looks
        ]
        ends = (different <= LEVEL) | (equal <= LEVEL) | np.array(hopeless)
        ends[-1] = True
        last = ends.argmax(0)
        seeds = np.array(looks)[last]
        claimed = different[last, np.arange(rivals)] <= LEVEL
        runs = seeds.sum() + seeds.max()
        results["until"].append((runs, claimed[0], (claimed & nothing).any()))
    return {name: np.mean(rows, axis=0) for name, rows in results.items()}


def main(argv: Sequence[str] | None = None) -> int:
    """Simulate and print."""
    settings = tyro.cli(Settings, description=__doc__, args=argv)
    if settings.smallest:
        settings = dataclasses.replace(
            settings, comparisons=4, looks=(3, 5), rivals=(2,)
        )
    looks = ", ".join(map(str, settings.looks))
    print(f"false claims (%) over looks at {looks} seeds: different, practically equal")
    for name, noise in NOISES.items():
        cells = []
        for rivals in settings.rivals:
            different, equal = false_claims(settings, noise, rivals)
            cells.append(f"{rivals:3}: {100 * different:4.1f} {100 * equal:4.1f}")
        print(f"  {name:40}{'   '.join(cells)}", flush=True)
    two = dataclasses.replace(settings, looks=settings.looks[-3:-1])
    looks_of_two = " and ".join(map(str, two.looks))
    rivals = settings.rivals[len(settings.rivals) // 2]
    print(
        f"{rivals} rivals at {looks_of_two} seeds (%): false claims of runs that "
        "learn, better though failed, unstable"
    )
    for name, noise in FAILING.items():
        cells = "".join(f" {100 * x:5.1f}" for x in failing(two, noise, rivals))
        print(f"  {name:49}{cells}", flush=True)
        if noise.documents is not None:
            false, *_ = failing(two, noise, rivals, has_groups=False)
            print(f"  {'the same, as independent examples':49} {100 * false:5.1f}")
    print(
        f"1 rival that gains, at {looks_of_two} seeds (%): better, better though "
        "failed, no failure seen"
    )
    for chance in (0.1, 0.2):
        noise = Noise(fails=(0, chance), loses=PARTS["a third"])
        cells = "".join(
            f" {100 * x:5.1f}" for x in better_though_it_collapses(two, noise)
        )
        name = f"it loses a third with probability {str(chance)[1:]}"
        print(f"  {name:49}{cells}", flush=True)
    print(
        f"{rivals} rivals at {looks_of_two} seeds (%), all runs learn: gains that are "
        "found at each look, unstable"
    )
    for share in (0.015, 0.03, 0.06, 0.1):
        found, unstable = power_of_verdicts(two, Noise(learnt=1 / share), rivals)
        cells = "".join(f" {100 * x:5.1f}" for x in (*found, unstable))
        name = f"seeds vary by {100 * share:g}% of the score"
        print(f"  {name:49}{cells}", flush=True)
    usual = NOISES["correlated examples"]
    collapsing = dataclasses.replace(usual, spreads=(1, 1, 20))
    for noise, rivals in [
        *((usual, rivals) for rivals in settings.rivals),
        *((collapsing, rivals) for rivals in settings.rivals if rivals > 1),
    ]:
        last = ", the last varies 20 times as much" if noise is collapsing else ""
        print(f"power (%) by seeds ({looks}), {rivals} rivals{last}")
        for name, rates in power(settings, noise, rivals).items():
            cells = "".join(f"{100 * rate:6.0f}" for rate in rates)
            print(f"  {name:40}{cells}", flush=True)
    print("runs, gain found (%) and false claims (%): ten seeds, --until decided")
    for rivals in settings.rivals:
        both = spent(settings, NOISES["normal"], rivals)
        cells = "   ".join(
            f"{runs:5.0f} {100 * gain:4.0f} {100 * false:4.1f}"
            for runs, gain, false in both.values()
        )
        print(f"  {rivals:2} rivals{'':31}{cells}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
