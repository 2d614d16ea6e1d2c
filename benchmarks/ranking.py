"""Test average precision of AUC and AP losses vs. cross-entropy's; their memory.

Synthetic features, 1 % positives, linear model, whole-batch gradient steps: for each
loss the learning rate with the best average precision on a validation set, then the
average precision and the AUC on a test set, over seeds. Then the temporary memory of
value and gradient of each loss, compiled for one set of many elements.

usage:    python benchmarks/ranking.py [--smallest]
measured: see benchmarks/README.md
"""

from __future__ import annotations

import dataclasses
import functools
import statistics
import sys
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
import optax
import sklearn.metrics
import tyro

from dicejax import losses

HINGE = {"surrogate": "squared_hinge"}
LOGISTIC = {"surrogate": "logistic"}
ODDS = {"scores": "log_odds"}
LOSSES: dict[str, tuple[Callable, dict[str, str]]] = {
    "cross-entropy": (losses.cross_entropy, {}),
    "AUC, squared hinge of p": (losses.pairwise_auc, HINGE),
    "AUC, squared hinge of log-odds": (losses.pairwise_auc, HINGE | ODDS),
    "AUC, logistic of log-odds": (losses.pairwise_auc, LOGISTIC | ODDS),
    "AP, squared hinge of p": (losses.average_precision, HINGE),
    "AP, squared hinge of log-odds": (losses.average_precision, HINGE | ODDS),
    "AP, logistic of log-odds": (losses.average_precision, LOGISTIC | ODDS),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """Sizes of the measurement.

    Args:
      examples: size of the training set and of the validation set.
      test: size of the test set.
      features: number of features, of which half carry the signal.
      positives: share of positives.
      heavy_tails: noise of a t distribution with 3 degrees of freedom, not normal.
      steps: gradient steps on the whole training set.
      rates: learning rates to choose from.
      seeds: number of data sets.
      elements: size of the set whose memory is measured.
      smallest: smoke test with the smallest sizes.
    """

    examples: int = 4000
    test: int = 20000
    features: int = 20
    positives: float = 0.01
    heavy_tails: bool = False
    steps: int = 100
    rates: tuple[float, ...] = (0.03, 0.1, 0.3)
    seeds: int = 10
    elements: int = 65536
    smallest: bool = False


SMALLEST = {
    "examples": 200,
    "test": 400,
    "positives": 0.1,
    "steps": 2,
    "rates": (0.1,),
    "seeds": 2,
    "elements": 512,
}


def data_of(settings: Settings, seed: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return features and labels of the three sets.

    Positives are shifted along a random direction; a third of them along another one,
    farther: a linear score cannot have both, and the order at the top matters.
    """
    rng = np.random.default_rng(seed)
    half = settings.features // 2
    shifts = rng.normal(size=(2, settings.features))
    shifts[:, half:] = 0
    shifts *= np.array([[1.5], [3.0]]) / np.linalg.norm(shifts, axis=1, keepdims=True)
    sets = {}
    sizes = {"train": settings.examples, "dev": settings.examples}
    for name, size in (sizes | {"test": settings.test}).items():
        y = np.zeros(size, np.int32)
        y[: max(round(settings.positives * size), 1)] = 1
        x = rng.normal(size=(size, settings.features))
        if settings.heavy_tails:  # few negatives are far out, where the ranking begins
            x *= np.sqrt(3 / rng.chisquare(3, size=(size, 1)))
        x += y[:, None] * shifts[(rng.random(size) < 1 / 3).astype(int)]
        sets[name] = x.astype(np.float32), y
    return sets


@functools.partial(jax.jit, static_argnames=("name", "steps"))
def trained(
    x: jax.Array, y: jax.Array, rate: jax.Array, *, name: str, steps: int
) -> jax.Array:
    """Return the weights of a linear model after Adam on the whole set."""
    loss, how = LOSSES[name]

    def of_weights(weights: jax.Array) -> jax.Array:
        logits = x @ weights[:-1] + weights[-1]
        return loss(logits, y, class_axis=None, **how).mean()

    optimizer = optax.adam(rate)

    def step(_: int, state: tuple) -> tuple:
        weights, moments = state
        update, moments = optimizer.update(jax.grad(of_weights)(weights), moments)
        return optax.apply_updates(weights, update), moments

    weights = jnp.zeros(x.shape[1] + 1)
    return jax.lax.fori_loop(0, steps, step, (weights, optimizer.init(weights)))[0]


def scores(weights: np.ndarray, x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Return average precision and AUC, in percent."""
    z = x @ weights[:-1]
    return (
        100 * float(sklearn.metrics.average_precision_score(y, z)),
        100 * float(sklearn.metrics.roc_auc_score(y, z)),
    )


def measured(settings: Settings) -> dict[str, list[tuple[float, float]]]:
    """Return the test scores of each loss, by seed."""
    by_loss: dict[str, list[tuple[float, float]]] = {name: [] for name in LOSSES}
    for seed in range(settings.seeds):
        sets = data_of(settings, seed)
        for name, rows in by_loss.items():
            models = [
                np.asarray(
                    trained(
                        *sets["train"],
                        jnp.float32(rate),
                        name=name,
                        steps=settings.steps,
                    )
                )
                for rate in settings.rates
            ]
            best = max(models, key=lambda model: scores(model, *sets["dev"])[0])
            rows.append(scores(best, *sets["test"]))
    return by_loss


def mebibytes(name: str, elements: int) -> float:
    """Return the temporary memory of value and gradient for one set."""
    loss, how = LOSSES[name]
    both = jax.value_and_grad(lambda z, y: loss(z, y, class_axis=None, **how).mean())
    logits = jax.ShapeDtypeStruct((elements,), jnp.float32)
    labels = jax.ShapeDtypeStruct((elements,), jnp.int32)
    program = jax.jit(both).lower(logits, labels).compile()
    return program.memory_analysis().temp_size_in_bytes / 2**20


def interval(values: list[float]) -> str:
    """Return mean and standard deviation over seeds."""
    return f"{statistics.mean(values):6.2f} ± {statistics.stdev(values):4.2f}"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    settings = tyro.cli(Settings, description=__doc__, args=argv)
    if settings.smallest:
        settings = dataclasses.replace(settings, **SMALLEST)
    by_loss = measured(settings)
    base = [ap for ap, _ in by_loss["cross-entropy"]]
    print(f"{'':32}{'test AP':>14}{'vs. cross-entropy':>20}{'test AUC':>17}{'MiB':>8}")
    for name, rows in by_loss.items():
        precisions, areas = ([*column] for column in zip(*rows, strict=True))
        gains = [ours - theirs for ours, theirs in zip(precisions, base, strict=True)]
        memory = mebibytes(name, settings.elements)
        print(
            f"{name:32}{interval(precisions):>14}{interval(gains):>20}"
            f"{interval(areas):>17}{memory:8.2f}"
        )
    pairs = settings.elements**2 * 4 / 2**20
    print(f"(an array of all pairs: {pairs:,.0f} MiB)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
