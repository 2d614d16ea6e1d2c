"""Is it right? Losses, steps, draws and packing vs. values that a CPU computed.

`reference.npz` beside this file holds the CPU's values; `write_reference` makes it. All
inputs come from NumPy, and are part of the file, so that only the device differs.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import encoders
import jax
import jax.numpy as jnp
import losses
import numpy as np
import optax
from encoders import CLASSES

from dicejax.losses.declaration import REGISTRY
from dicejax.models.dropout import DropoutKeys, dropout
from dicejax.models.encoder import EncoderConfig
from dicejax.models.network import Network, Params
from dicejax.objectives import SelfAdjustingDice
from dicejax.optimizers import AdamW
from dicejax.training.state import TrainState
from dicejax.training.step import train_step
from on_device.report import Report

Value = tuple[str, str, Any]
"""Kind, name and array of what is compared."""
REFERENCE = Path(__file__).with_name("reference.npz")
ROWS, LENGTH = 4, 384  # ModernBERT computes windows block by block here
OTHER_STEPS = (("bfloat16", 1), ("float32", 4), ("bfloat16", 4))
"""Precision and micro-batches of steps that are not the plain one."""
SAMPLED = 256
"""Entries of each gradient that are compared, evenly spaced."""
# Largest difference from the CPU's values as a share of their largest, by kind.
# Matrix products of float32 are of three bfloat16 passes or more on all platforms.
LIMITS = {
    "loss": 2e-5,
    "gradient of a loss": 2e-5,
    "loss of a step": 2e-5,
    "gradient of a step": 2e-4,
    "loss of a step, bfloat16": 2e-2,
    "gradient of a step, bfloat16": 6e-2,
    "logits": 2e-4,
}


def run(report: Report) -> None:
    """Compare the device's values with the CPU's, then look for leaks."""
    stored = dict(np.load(REFERENCE))
    for group, values in groups(report.smallest).items():
        report.attempt(
            lambda g=group, v=values: compare(report, g, v, stored), of=group
        )
    for name, config in configurations(report.smallest).items():
        for precision in ("float32",) if report.smallest else ("float32", "bfloat16"):
            network = network_of(config, precision)
            names = {"kind": "leak", "of": f"{name}, {precision}", "limit": 0.0}
            report.attempt(lambda network=network: leak_of(network), **names)


def compare(
    report: Report, group: str, values: Iterable[Value], stored: dict[str, np.ndarray]
) -> None:
    """Add a row for each kind of value: the largest difference, and those too large."""
    differences: dict[str, dict[str, float]] = {}
    with jax.default_matmul_precision("highest"):
        for kind, name, value in values:
            share = difference(np.asarray(value), stored.get(f"{kind}/{name}"))
            differences.setdefault(kind, {})[name] = share
    for kind, shares in differences.items():
        worst = max(shares, key=shares.__getitem__)
        limit = LIMITS.get(kind, 0.0)
        report.row(
            kind=kind,
            of=group,
            compared=len(shares),
            largest=shares[worst],
            at=worst,
            limit=limit,
            holds=shares[worst] <= limit,
            beyond=[name for name, share in shares.items() if not share <= limit],
        )


def write_reference() -> None:
    """Write the values of this machine's CPU."""
    with jax.default_matmul_precision("highest"):
        values = {
            f"{kind}/{name}": np.asarray(value)
            for group in groups(smallest=False).values()
            for kind, name, value in group
        }
    np.savez_compressed(REFERENCE, **values)


def difference(value: np.ndarray, expected: np.ndarray | None) -> float:
    """Return the largest difference as a share of the largest expected entry.

    It is infinite where no value is stored.
    """
    if expected is None:
        return float("inf")
    if value.shape != expected.shape:
        raise ValueError(f"{value.shape} vs. {expected.shape} in {REFERENCE.name}")
    if expected.dtype == np.uint8:  # bits of dropout, checksums of inputs
        return float((value != expected).sum())
    scale = np.abs(expected).max() or 1.0
    largest = np.abs(value.astype(np.float64) - expected).max() / scale
    return float(largest) if np.isfinite(largest) else float("inf")


def groups(smallest: bool) -> dict[str, Iterable[Value]]:
    """Return all that is compared: losses, draws, and steps, plain ones first."""
    networks = configurations(smallest).items()
    compared: dict[str, Iterable[Value]] = {
        "losses": values_of_losses(),
        "dropout": [("draws of dropout", "mask", dropout_bits())],
    }
    for name, config in networks:
        plain = steps_of(name, config, "float32", 1)
        compared[name] = itertools.chain(plain, logits_of(name, config))
    for precision, parts in () if smallest else OTHER_STEPS:
        for name, config in networks:
            group = f"{name}, {precision}, micro-batches {parts}"
            compared[group] = steps_of(name, config, precision, parts)
    return compared


def steps_of(
    name: str, config: EncoderConfig, precision: str, micro_batches: int
) -> Iterator[Value]:
    """Yield the loss and the gradient of a step."""
    suffix = "" if precision == "float32" else f", {precision}"
    case = f"{name}, micro-batches {micro_batches}"
    loss, gradient = step(network_of(config, precision), micro_batches)
    yield f"loss of a step{suffix}", case, loss
    yield f"gradient of a step{suffix}", case, gradient


def logits_of(name: str, config: EncoderConfig) -> Iterator[Value]:
    """Yield logits of packed and of single rows."""
    packed, alone = logits(network_of(config, "float32"))
    yield "logits", f"{name}, packed", packed
    yield "logits", f"{name}, alone", alone


def values_of_losses() -> Iterator[Value]:
    """Yield the value and the gradient of each registered loss at its defaults."""
    rng = np.random.default_rng(0)
    arrays = rng.normal(scale=3, size=(8, 16, CLASSES)).astype(np.float32)
    classes, outcomes, positives, counts = losses.labels_of(rng, arrays.shape[:2])
    for name, declaration in REGISTRY.items():
        several = declaration.multi_label
        loss = losses.loss_of(declaration, counts if several else positives)
        both = jax.jit(jax.value_and_grad(lambda *a, loss=loss: loss(*a).mean()))
        value, gradient = both(arrays, outcomes if several else classes)
        yield "loss", name, value
        yield "gradient of a loss", name, gradient


def dropout_bits() -> np.ndarray:
    """Return the bits of a dropout mask of hidden states."""
    keys = DropoutKeys.for_rows(jax.random.key(3), jnp.arange(8))
    dropped = jax.jit(dropout, static_argnums=1)(jnp.ones((8, 128, 64)), 0.1, keys)
    return np.packbits(np.asarray(dropped) > 0)


def configurations(smallest: bool) -> dict[str, EncoderConfig]:
    """Return two layers of each encoder, with dropout."""
    every = encoders.architectures(depth=2, width=256).items()
    chosen = list(every)[: 1 if smallest else None]
    return {name: config.with_dropout(0.1, 0.1) for name, config in chosen}


def network_of(config: EncoderConfig, precision: str) -> Network:
    """Return an encoder with a token head."""
    return encoders.network_of(config, precision)


def drawn(network: Network) -> Params:
    """Draw all parameters by NumPy; norms are around 1."""
    shapes = jax.eval_shape(network.init, jax.random.key(0))
    rng = np.random.default_rng(1)

    def draw(path: Any, leaf: Any) -> np.ndarray:
        around = 1.0 if path[-1].key == "scale" else 0.0
        return rng.normal(around, 0.06, leaf.shape).astype(np.float32)

    return jax.tree_util.tree_map_with_path(draw, shapes)


def segments() -> dict[str, np.ndarray]:
    """Return rows of several segments each, the last with padding."""
    rng = np.random.default_rng(2)
    lengths = [[200, 184], [384], [96, 96, 96, 96], [150, 100]]
    shape = (ROWS, LENGTH)
    arrays = {"segment_ids": np.zeros(shape, np.int32)}
    arrays["position_ids"] = np.zeros(shape, np.int32)
    for row, sizes in enumerate(lengths):
        ends = np.cumsum(sizes)
        for number, (end, size) in enumerate(zip(ends, sizes, strict=True), start=1):
            arrays["segment_ids"][row, end - size : end] = number
            arrays["position_ids"][row, end - size : end] = np.arange(size)
    arrays["input_ids"] = rng.integers(5, 2000, shape).astype(np.int32)
    arrays["token_type_ids"] = np.zeros(shape, np.int32)
    tags = rng.integers(0, CLASSES, shape).astype(np.int32)
    arrays["tags"] = np.where(arrays["segment_ids"] > 0, tags, -100)
    return arrays


def step(network: Network, micro_batches: int) -> tuple[jax.Array, np.ndarray]:
    """Return the loss of a training step with dropout, and entries of its gradient."""
    optimizer = AdamW(clip_norm=1e9)  # the first moment is then a tenth of the gradient
    state = TrainState.create(
        jax.device_put(drawn(network)),
        optimizer,
        total_steps=10,
        rng=jax.random.key(4),
    )
    state, metrics = train_step(
        state,
        segments(),
        SelfAdjustingDice().reading("tags"),
        network=network,
        optimizer=optimizer,
        micro_batches=micro_batches,
    )
    moments = optax.tree.get(state.opt_state, "mu")
    return metrics["loss"], sampled(moments)


def sampled(tree: Any) -> np.ndarray:
    """Return evenly spaced entries of each array, in one line."""

    def some(array: Any) -> np.ndarray:
        flat = np.asarray(array, np.float32).reshape(-1)
        return flat[:: max(1, -(-flat.size // SAMPLED))]

    return np.concatenate([some(array) for array in jax.tree.leaves(tree)])


def logits(network: Network) -> tuple[np.ndarray, np.ndarray]:
    """Return logits of the first row's two segments, packed and each in its own row."""
    params, arrays = jax.device_put(drawn(network)), segments()
    apply = jax.jit(network.apply)
    packed = np.asarray(apply(params, arrays)["tags"])[0]
    alone = {name: np.zeros_like(array) for name, array in arrays.items()}
    first = int((arrays["segment_ids"][0] == 1).sum())
    for name, array in arrays.items():
        alone[name][0, :first] = array[0, :first]
        alone[name][1, : LENGTH - first] = array[0, first:]
    apart = np.asarray(apply(params, alone)["tags"])
    joined = np.concatenate([apart[0, :first], apart[1, : LENGTH - first]])
    return packed, joined


def leak_of(network: Network) -> dict[str, Any]:
    """Return the largest change of logits of segments whose tokens did not change."""
    params, arrays = jax.device_put(drawn(network)), segments()
    apply = jax.jit(network.apply)
    key = jax.random.key(5)
    before = np.asarray(apply(params, arrays, key)["tags"])
    changed = arrays["segment_ids"] == 2
    other = np.where(changed, 2000 - arrays["input_ids"], arrays["input_ids"])
    after = np.asarray(apply(params, arrays | {"input_ids": other}, key)["tags"])
    moved = np.abs(after - before).max(axis=-1)
    if not moved[changed].all():
        raise ValueError("logits of the changed segments stay as they were")
    largest = float(moved[~changed].max())
    return {"largest": largest, "holds": largest == 0.0}
