"""Simulate choices among 30 settings, confirmed on test or compared there.

    python docs/evidence/choosing_simulated.py

prints how often a gain over the control is claimed, where no setting has one and where
one has: by a choice on dev that is confirmed with fresh seeds, by Holm's test of all
settings on test, and by the interval of the setting that is best on test. A tenth of
the settings fail in every run.
"""

from __future__ import annotations

import sys

import numpy as np

from dicejax.study.significance import holm, score, seeds_and_items

SETTINGS = 30
FAILING = 3
SKILL, GAIN = 0.6, 0.06
OF_SEEDS = 0.015
"""Standard deviation of the skill over seeds."""
DEV, TEST, SEEDS = 150, 300, 5


def runs(rng: np.random.Generator, skill: float, seeds: int, gold: np.ndarray):
    """Return the statistics of F1 of some runs, `[S, N, 1, 2]`."""
    drawn = np.clip(skill + OF_SEEDS * rng.normal(size=(seeds, 1)), 0, 1)
    right = rng.binomial(gold, drawn, (seeds, len(gold)))
    both = np.broadcast_to(2 * gold, right.shape)
    return np.stack([2 * right, both], axis=-1)[:, :, None].astype(float)


def claims(rng: np.random.Generator, skills: np.ndarray) -> tuple[int, int, int]:
    """Return by each way the number of the setting that is claimed to gain, or -1."""
    dev, test = (rng.integers(1, 4, size) for size in (DEV, TEST))
    # The leader by its mean has a further seed, until one with three leads.
    by_seed = [[float(score(runs(rng, x, 1, dev)).mean())] for x in skills]
    while len(by_seed[chosen := int(np.argmax([np.mean(x) for x in by_seed]))]) < 3:
        by_seed[chosen].append(float(score(runs(rng, skills[chosen], 1, dev)).mean()))
    control = runs(rng, SKILL, SEEDS, test)
    confirmed = seeds_and_items(runs(rng, skills[chosen], SEEDS, test), control)
    all_tested = [seeds_and_items(runs(rng, x, SEEDS, test), control) for x in skills]
    adjusted = holm([x.p_value for x in all_tested])
    gains = np.array([x.mean for x in all_tested])
    leader = int(gains.argmax())
    return (
        chosen if confirmed.low > 0 else -1,
        leader if adjusted[leader] <= 0.05 and gains[leader] > 0 else -1,
        leader if all_tested[leader].low > 0 else -1,
    )


def main(repeats: int = 2000) -> None:
    """Print the share of claims, and of right ones."""
    skills = np.full(SETTINGS, SKILL)
    skills[-FAILING:] = 0.1
    better = skills.copy()
    better[7] += GAIN
    names = ("chosen on dev, confirmed on test", "all on test, Holm", "best on test")
    for title, each in (("no gain", skills), ("one gains 6 points", better)):
        rng = np.random.default_rng(0)
        numbers = np.array([claims(rng, each) for _ in range(repeats)])
        for name, column in zip(names, numbers.T, strict=True):
            claimed = (column >= 0).mean()
            right = (column == 7).mean() if each is better else 0.0
            print(f"{title}: {name}: claims {claimed:.1%}, right ones {right:.1%}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
