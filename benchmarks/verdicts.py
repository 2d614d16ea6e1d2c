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
- where a loss fails in some runs, which then score 0, or where examples come in
  documents: false claims among runs that learn, any verdict of better on a loss that
  failed in a run, and shares of losses that are called unstable. These comparisons are
  those of the package itself, from scores of runs to verdicts.

usage:    python benchmarks/verdicts.py [--smallest]
measured: see benchmarks/README.md
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Iterator, Sequence

import numpy as np
import tyro
from scipy import stats

from dicejax.study.compare.failures import failures_of
from dicejax.study.compare.jobs import Outcome
from dicejax.study.compare.testing import MARGIN, Tests
from dicejax.study.compare.until import FUTILE, LOOKS
from dicejax.study.significance import (
    CrossedDifference,
    Verdict,
    holm,
    sequential_p_value,
    shrink_variances,
)

LEVEL = 0.05
DOCUMENT = 15  # examples
LEARNT = 70.0  # mean score of a run that learns, in standard deviations of a seed


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
      documents: correlation of examples in a document; None without documents.
    """

    tails: str = "normal"
    spreads: tuple[float, float, float] = (1.0, 1.0, 1.0)
    last: float = 0.0
    shared: float = 0.0
    example: float = 0.0
    fails: tuple[float, float] = (0.0, 0.0)
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
FAILING = {
    "the last rival fails with probability .1": Noise(fails=(0, 0.1)),
    "the last rival fails with probability .2": Noise(fails=(0, 0.2)),
    "the last rival fails with probability .3": Noise(fails=(0, 0.3)),
    "the baseline fails with probability .2": Noise(fails=(0.2, 0)),
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


def verdicts_with_failures(
    rng: np.random.Generator,
    settings: Settings,
    noise: Noise,
    rivals: int,
    *,
    has_groups: bool = True,
) -> list[dict[str, tuple[Verdict, bool]]]:
    """Return verdicts of a comparison without differences, and failures, by look."""
    scores = LEARNT + drawn(rng, settings, noise, rivals, [0.0] * rivals)
    chances = np.zeros((rivals + 1, 1))
    chances[0], chances[-max(int(noise.last * rivals), 1) :] = noise.fails
    scores[rng.random(scores.shape[:2]) < chances] = 0.0
    names = ["ce", *(f"rival {number}" for number in range(rivals))]
    groups = None
    if noise.documents is not None and has_groups:
        groups = np.arange(settings.examples) // DOCUMENT
    looks: list[dict[str, list[int]]] = []
    results = []
    for seeds in settings.looks:
        outcomes = {
            name: [
                Outcome(
                    *(name, seed, "", "finished"),
                    {"primary_metric": "f1", "test": {"f1": float(run.mean())}},
                    np.stack([run, np.ones_like(run)], -1)[:, None],
                    groups=groups,
                )
                for seed, run in enumerate(of_loss[:seeds])
            ]
            for name, of_loss in zip(names, scores, strict=True)
        }
        tests = Tests(
            runs={
                name: {run.seed: run.item_statistics for run in runs}
                for name, runs in outcomes.items()
            },
            failures={name: failures_of(runs) for name, runs in outcomes.items()},
            looks=looks,
            margin=MARGIN,
            metric="F1",
            source="run",
        )
        verdicts = tests.verdicts("ce", names[1:], names[1:])
        results.append(
            {
                name: (verdict, bool(tests.failures[name].seeds))
                for name, (_, verdict) in verdicts.items()
            }
        )
        looks = [*looks, {name: list(range(seeds)) for name in names[1:]}]
    return results


def failing(
    settings: Settings, noise: Noise, rivals: int, *, has_groups: bool = True
) -> tuple[float, float, float]:
    """Return rates of comparisons with failures or documents, over all looks.

    Those with a false claim among the runs that learn, those with a loss that failed
    and is called better, and those with an unstable loss at the last look.
    """
    if noise.documents is not None:
        settings = dataclasses.replace(settings, examples=10 * DOCUMENT)
    rng = np.random.default_rng([rivals, len(noise.tails)])
    rates = []
    for _ in range(settings.comparisons):
        by_look = verdicts_with_failures(
            rng, settings, noise, rivals, has_groups=has_groups
        )
        pairs = [pair for at_look in by_look for pair in at_look.values()]
        claimed = any(v.outcome in ("better", "worse") for v, _ in pairs)
        failed = any(v.outcome == "better" and has_failed for v, has_failed in pairs)
        unstable = any(v.outcome == "unstable" for v, _ in by_look[-1].values())
        rates.append((claimed, failed, unstable))
    false, failed, unstable = np.mean(rates, axis=0).tolist()
    return false, failed, unstable


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
    # Two looks and one number: these comparisons take the package's way, a slower one.
    two = dataclasses.replace(settings, looks=settings.looks[-3:-1])
    looks_of_two = " and ".join(map(str, two.looks))
    rivals = settings.rivals[len(settings.rivals) // 2]
    print(
        f"{rivals} rivals at {looks_of_two} seeds (%): false claims of runs that "
        "learn, better though failed, unstable"
    )
    for name, noise in FAILING.items():
        cells = "".join(f" {100 * x:5.1f}" for x in failing(two, noise, rivals))
        print(f"  {name:41}{cells}", flush=True)
        if noise.documents is not None:
            false, *_ = failing(two, noise, rivals, has_groups=False)
            print(f"  {'the same, as independent examples':41} {100 * false:5.1f}")
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
