"""Time and memory of every loss vs. a training step of BERT-base and optax's.

Value and gradient of each registered loss, jitted, on the logits of one batch, as a
share of the step's time on the same batch, and as a multiple of the time of optax's
cross-entropy; the temporary memory of the compiled function in arrays of the logits'
size. Then losses that optax has too, on other shapes, as multiples of its CPU time: run
on one core, by taskset. Then, if PyTorch is installed, losses that optax has not, as
multiples of the CPU time of the usual formula in eager PyTorch. Exits with 1 if a loss
takes over 1 % of the step, over 8 arrays, or over 1.4 times optax's time.

usage:    python benchmarks/losses.py [--smallest] [--only NAME ...]
measured: see benchmarks/README.md
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import accumulation
import jax
import numpy as np
import optax
import tyro

from dicejax import losses
from dicejax.losses.declaration import REGISTRY, Declaration
from dicejax.models.bert import BertConfig
from dicejax.models.heads import TokenHead
from dicejax.models.network import Network
from dicejax.objectives import CrossEntropy

CLASSES = accumulation.CLASSES
SHARE, ARRAYS, MULTIPLE = 0.01, 8.0, 1.4
SHAPES = ((4096, 9), (32768, 30))
VOCABULARY = (4096, 50000)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """Sizes of the measurement.

    Args:
      rows: number of rows in the batch.
      max_length: tokens per row.
      layers: number of layers of the encoder.
      width: width of the hidden states.
      rounds: number of timings of each loss; the median counts.
      only: parts of the names of the losses to measure; all by default.
      smallest: smoke test with the smallest sizes.
    """

    rows: int = 16
    max_length: int = 128
    layers: int = 12
    width: int = 768
    rounds: int = 9
    only: tuple[str, ...] = ()
    smallest: bool = False


SMALLEST = {"rows": 2, "max_length": 8, "layers": 1, "width": 24, "rounds": 1}


def step_seconds(settings: Settings) -> float:
    """Return the time of a training step, the faster of two after the first."""
    encoder = BertConfig(
        vocab_size=30522,
        hidden_size=settings.width,
        num_hidden_layers=settings.layers,
        intermediate_size=4 * settings.width,
    )
    heads = (("tags", TokenHead(classes=CLASSES)),)
    network = Network(encoder=encoder, heads=heads, precision="float32")
    batch = accumulation.batch_of(settings.rows, settings.max_length)
    step = accumulation.Step(network, batch, CrossEntropy(), 1)
    return min([step.seconds() for _ in range(3)][1:])


def loss_of(declaration: Declaration, counts: np.ndarray) -> Callable:
    """Return the loss as a function of logits and labels, from its first state."""
    settings = {"class_counts": counts} if "class_counts" in declaration.takes else {}

    def loss(logits, labels):
        if declaration.initial_state is None:
            return declaration.function(logits, labels, **settings)
        state = declaration.initial_state()
        return declaration.function(logits, labels, state, **settings)[0]

    return loss


def labels_of(
    rng: np.random.Generator, tokens: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Draw labels of which 80% are the first class.

    Returns:
      Classes `[...]`, outcomes of each class `[..., C]`, and the counts of both that
      losses take: `[C]` and `[C, 2]`.
    """
    shares = np.array([0.8, *[0.2 / (CLASSES - 1)] * (CLASSES - 1)])
    classes = rng.choice(CLASSES, tokens, p=shares).astype(np.int32)
    outcomes = (rng.random((*tokens, CLASSES)) < shares).astype(np.int32)
    positives = shares * classes.size
    negatives = classes.size - positives
    return classes, outcomes, positives, np.stack([negatives, positives], axis=-1)


def soft(labels: Any, classes: int) -> Any:
    """Return smoothed probabilities of class numbers."""
    return 0.9 * jax.nn.one_hot(labels, classes) + 0.1 / classes


# Ours, optax's of the same formula, and whether labels are outcomes, soft or classes.
PEERS: dict[str, tuple[Callable, Callable, str]] = {
    "cross_entropy": (
        losses.cross_entropy,
        optax.losses.softmax_cross_entropy_with_integer_labels,
        "classes",
    ),
    "cross_entropy, float labels": (
        losses.cross_entropy,
        optax.losses.softmax_cross_entropy,
        "soft",
    ),
    "cross_entropy, multi-label": (
        functools.partial(losses.cross_entropy, multi_label=True),
        optax.losses.sigmoid_binary_cross_entropy,
        "outcomes",
    ),
    "focal, multi-label": (
        functools.partial(losses.focal, multi_label=True),
        optax.losses.sigmoid_focal_loss,
        "outcomes",
    ),
    "poly": (
        losses.poly,
        lambda z, y: optax.losses.poly_loss_cross_entropy(
            z, jax.nn.one_hot(y, z.shape[-1]), epsilon=1.0
        ),
        "classes",
    ),
    "poly, float labels": (
        losses.poly,
        functools.partial(optax.losses.poly_loss_cross_entropy, epsilon=1.0),
        "soft",
    ),
    "dice": (
        losses.dice,
        lambda z, y: optax.losses.dice_loss(
            z, jax.nn.one_hot(y, z.shape[-1]), smooth=0.5, axis=0, reduction="none"
        ),
        "classes",
    ),
    "tversky": (
        functools.partial(losses.tversky, alpha=0.3, beta=0.7),
        lambda z, y: optax.losses.dice_loss(
            z,
            jax.nn.one_hot(y, z.shape[-1]),
            smooth=1.0,
            alpha=0.3,
            beta=0.7,
            axis=0,
            reduction="none",
        ),
        "classes",
    ),
}


def beside_torch(shape: tuple[int, int], rounds: int) -> None:
    """Print CPU times of losses and of the same formulas in eager PyTorch."""
    import torch
    from torch.nn import functional

    torch.set_num_threads(1)
    rng = np.random.default_rng(1)
    logits = rng.normal(size=shape).astype(np.float32)
    labels = rng.integers(0, shape[1], shape[0]).astype(np.int32)
    weights = rng.uniform(0.5, 2, shape[1]).astype(np.float32)
    z = torch.tensor(logits, requires_grad=True)
    y, w = torch.tensor(labels.astype(np.int64)), torch.tensor(weights)

    def cross_entropy(**settings: Any) -> Any:
        return functional.cross_entropy(z, y, reduction="none", **settings)

    def focal() -> Any:  # torchvision's, of a softmax
        entropy = cross_entropy()
        return (1 - torch.exp(-entropy)) ** 2 * entropy

    def overlap() -> tuple[Any, Any]:
        p, one_hot = z.softmax(-1), functional.one_hot(y, shape[1]).float()
        return (p * one_hot).sum(0), (p + one_hot).sum(0)

    def jaccard() -> Any:  # smp's and MONAI's
        shared, both = overlap()
        return 1 - (shared + 1) / (both - shared + 1)

    def log_dice() -> Any:  # smp's
        shared, both = overlap()
        return -torch.log((2 * shared + 1) / (both + 1))

    def lovasz() -> Any:  # its authors', also in smp
        one_hot = functional.one_hot(y, shape[1]).float()
        errors, order = torch.sort((one_hot - z.softmax(-1)).abs(), 0, descending=True)
        gold = torch.gather(one_hot, 0, order)
        left = gold.sum(0) - gold.cumsum(0)
        union = gold.sum(0) + (1 - gold).cumsum(0)
        index = 1 - left / union
        slopes = torch.cat([index[:1], index[1:] - index[:-1]])
        return (errors * slopes).sum(0)

    weighed = functools.partial(losses.cross_entropy, class_weights=weights)
    pairs = {
        "cross_entropy": (losses.cross_entropy, cross_entropy),
        "cross_entropy, weights": (weighed, lambda: cross_entropy(weight=w)),
        "focal": (losses.focal, focal),
        "jaccard": (functools.partial(losses.jaccard, smooth=1.0), jaccard),
        "log_dice": (functools.partial(losses.log_dice, smooth=1.0), log_dice),
        "lovasz_softmax": (losses.lovasz_softmax, lovasz),
    }
    print(f"{shape[0]} x {shape[1]:<20} {'ms':>8} {'x torch':>8}")
    for name, (loss, theirs) in pairs.items():
        _, call = compiled(loss, logits, labels)
        np.testing.assert_allclose(call()[0], theirs().mean().item(), rtol=1e-4)

        def backward(theirs: Callable = theirs) -> None:
            z.grad = None
            theirs().mean().backward()

        taken: list[list[float]] = [[], []]
        for _ in range(rounds):
            for times, timed in zip(taken, (call, backward), strict=True):
                times.append(milliseconds(timed, time.process_time))
        ours, peer = map(statistics.median, taken)
        print(f"{name:27} {ours:8.3f} {ours / peer:8.2f}")


def beside_optax(shape: tuple[int, int], names: Sequence[str], rounds: int) -> int:
    """Print CPU times and memory of losses and of optax's; return how many are slow."""
    rng = np.random.default_rng(1)
    logits = rng.normal(size=shape).astype(np.float32)
    classes, outcomes = (
        rng.integers(0, top, size).astype(np.int32)
        for top, size in ((shape[1], shape[0]), (2, shape))
    )
    labels = {"classes": classes, "outcomes": outcomes}
    broken = 0
    print(
        f"{shape[0]} x {shape[1]:<20} {'ms':>8} {'x optax':>8} {'arrays':>7} {'its':>7}"
    )
    for name in names:
        *pair, kind = PEERS[name]
        if kind == "soft":
            labels["soft"] = np.asarray(soft(classes, shape[1]))
        programs = [compiled(loss, logits, labels[kind]) for loss in pair]
        taken: list[list[float]] = [[], []]
        for _ in range(rounds):
            for times, (_, call) in zip(taken, programs, strict=True):
                times.append(milliseconds(call, time.process_time))
        ours, theirs = map(statistics.median, taken)
        arrays, others = (memory for memory, _ in programs)
        is_broken = ours > MULTIPLE * theirs
        broken += is_broken
        print(
            f"{name:27} {ours:8.3f} {ours / theirs:8.2f} {arrays:7.2f} {others:7.2f}"
            + (" beyond the limit" if is_broken else "")
        )
    return broken


def compiled(loss: Callable, logits: Any, labels: Any) -> tuple[float, Callable]:
    """Return temporary memory, in arrays of the logits' size, and a call."""
    logits, labels = jax.device_put((logits, labels))
    both = jax.value_and_grad(lambda *arguments: loss(*arguments).mean())
    program = jax.jit(both).lower(logits, labels).compile()
    memory = program.memory_analysis().temp_size_in_bytes / logits.nbytes
    return memory, lambda: jax.block_until_ready(program(logits, labels))


def milliseconds(
    call: Callable[[], Any], clock: Callable[[], float] = time.perf_counter
) -> float:
    """Return the time of a call, of ten after one that does not count."""
    call()
    start = clock()
    for _ in range(10):
        call()
    return (clock() - start) * 1e3 / 10


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; return how many losses break a limit."""
    settings = tyro.cli(Settings, description=__doc__, args=argv)
    if settings.smallest:
        settings = dataclasses.replace(settings, **SMALLEST)
    step = 1e3 * step_seconds(settings)
    rng = np.random.default_rng(0)
    tokens = (settings.rows, settings.max_length)
    logits = rng.normal(size=(*tokens, CLASSES)).astype(np.float32)
    classes, outcomes, positives, of_outcomes = labels_of(rng, tokens)

    rival = optax.softmax_cross_entropy_with_integer_labels
    programs = {"optax's cross-entropy": compiled(rival, logits, classes)}
    for name, declaration in REGISTRY.items():
        if not settings.only or any(part in name for part in settings.only):
            labels = outcomes if declaration.multi_label else classes
            counts = of_outcomes if declaration.multi_label else positives
            programs[name] = compiled(loss_of(declaration, counts), logits, labels)
    times = {name: [] for name in programs}
    for _ in range(settings.rounds):
        for name, (_, call) in programs.items():
            times[name].append(milliseconds(call))

    print(f"step: {step:.0f} ms on {tokens[0]} x {tokens[1]} tokens, {CLASSES} classes")
    print(f"{'':24} {'ms':>8} {'% of the step':>14} {'x optax':>8} {'arrays':>7}")
    medians = {name: statistics.median(taken) for name, taken in times.items()}
    broken = 0
    for name, (arrays, _) in programs.items():
        taken, ours = medians[name], name in REGISTRY
        is_broken = ours and (taken > SHARE * step or arrays > ARRAYS)
        broken += is_broken
        print(
            f"{name:24} {taken:8.3f} {100 * taken / step:14.3f}"
            f" {taken / medians[next(iter(medians))]:8.1f} {arrays:7.1f}"
            + (" beyond the limit" if is_broken else "")
        )
    has_torch = importlib.util.find_spec("torch") is not None
    if settings.smallest:
        if has_torch:
            beside_torch((8, 3), 1)
        return 0 * beside_optax((8, 3), ["dice"], 1)
    if not settings.only:
        broken += sum(
            beside_optax(shape, [*PEERS], settings.rounds) for shape in SHAPES
        )
        broken += beside_optax(VOCABULARY, ["cross_entropy"], 3)
        for shape in SHAPES if has_torch else ():
            beside_torch(shape, settings.rounds)
    return broken


if __name__ == "__main__":
    sys.exit(min(main(), 1))
