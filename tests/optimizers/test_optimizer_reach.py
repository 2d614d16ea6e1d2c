"""Reach of updates: layers, heads and frozen parameters."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from dicejax.optimizers import AdamW

from .trees import LAYERS, RULES, STEADY, Signs, close, on_device, run, same, tree


def change(optimizer, params, gradients):
    """Return the difference of one step, in float64."""
    with jax.enable_x64(True):
        old = on_device(params, float)
        new = run(optimizer, old, [on_device(gradients, float)]).params
        return jax.device_get(jax.tree.map(lambda o, n: o - n, old, new))


@pytest.mark.parametrize("rule", RULES)
def test_layers_and_heads_take_their_share_of_the_change(rule):
    settings = {"learning_rate": 0.1, "weight_decay": 0.3, **STEADY}
    params, gradients = tree(0), tree(1)
    whole = change(rule(**settings), params, gradients)
    parts = change(
        rule(**settings, layer_decay=0.5, head_learning_rate=4.0), params, gradients
    )
    heads = jax.tree.map(lambda c: 4.0 * c, whole["heads"])
    close(parts["heads"], heads, rtol=1e-6)
    for i, multiplier in enumerate((0.25, 0.5, 1.0)):
        layer = [c["encoder"]["layers"]["query"]["kernel"][i] for c in (parts, whole)]
        np.testing.assert_allclose(layer[0], multiplier * layer[1], rtol=1e-6)
    embeddings = jax.tree.map(lambda c: 0.125 * c, whole["encoder"]["embeddings"])
    close(parts["encoder"]["embeddings"], embeddings, rtol=1e-6)


def test_heads_learn_at_a_multiple_of_the_rate_as_two_optimizers_of_optax():
    params, gradients = tree(0), [tree(seed) for seed in (1, 2, 3)]
    optimizer = AdamW(
        learning_rate=0.01, head_learning_rate=10.0, warmup=0.5, clip_norm=1e6
    )
    with jax.enable_x64(True):
        got = run(
            optimizer,
            on_device(params, float),
            [on_device(g, float) for g in gradients],
        )
        rates = jnp.array([float(optimizer.rate(step, 3)) for step in range(3)])

        def adamw(factor):
            return optax.adamw(
                lambda step: factor * rates[step],
                weight_decay=0.01,
                mask=lambda tree: jax.tree_util.tree_map_with_path(
                    lambda path, _: path[-1].key not in ("bias", "scale"), tree
                ),
            )

        peer = optax.multi_transform(
            {"encoder": adamw(1.0), "heads": adamw(10.0)},
            lambda tree: {
                group: jax.tree.map(lambda _, group=group: group, part)
                for group, part in tree.items()
            },
        )
        expected = on_device(params, float)
        state = peer.init(expected)
        for gradient in gradients:
            updates, state = peer.update(on_device(gradient, float), state, expected)
            expected = optax.apply_updates(expected, updates)
    close(got.params, expected, rtol=1e-6, atol=1e-9)


FREEZING = [
    {"freeze_embeddings": True},
    {"frozen_layers": 2},
    {"frozen_layers": LAYERS},
    {"freeze_embeddings": True, "frozen_layers": 2},
    {"freeze_embeddings": True, "frozen_layers": LAYERS},
]


@pytest.mark.parametrize(
    ("rule", "freezing"), [(AdamW, f) for f in FREEZING] + [(Signs, FREEZING[3])]
)
def test_what_is_frozen_stays_and_counts_for_nothing(rule, freezing):
    optimizer = rule(clip_norm=0.5, layer_decay=0.5, **freezing)
    first = freezing.get("frozen_layers", 0)

    def split(params):
        """Return what is frozen, and the rest."""
        encoder = params["encoder"]
        frozen = [jax.tree.map(lambda leaf: leaf[:first], encoder["layers"])]
        rest = [jax.tree.map(lambda leaf: leaf[first:], encoder["layers"])]
        rest.append(params["heads"])
        embeddings = frozen if freezing.get("freeze_embeddings") else rest
        embeddings.append(encoder["embeddings"])
        return frozen, rest

    def step_twice(optimizer, value):
        """Take two steps with gradients of this value where frozen."""
        gradients = tree(1)
        for view in jax.tree.leaves(split(gradients)[0]):
            view[...] = value
        return run(optimizer, on_device(tree(0)), [on_device(gradients)] * 2)

    update = step_twice(optimizer, np.nan)
    frozen, rest = split(update.params)
    same(frozen, split(on_device(tree(0)))[0])
    # The rest is as when nothing is frozen and frozen gradients are zero.
    free = dataclasses.replace(optimizer, freeze_embeddings=False, frozen_layers=0)
    expected = step_twice(free, 0.0)
    close(rest, split(expected.params)[1], rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(update.gradient_norm, expected.gradient_norm, rtol=1e-6)


def test_what_is_frozen_has_no_moments():
    params = on_device(tree())
    state = AdamW(freeze_embeddings=True, frozen_layers=2).init(params)
    moments = 2 * (24 + 6 + 4 + 12 + 3)  # two of one layer and the head
    assert sum(leaf.size for leaf in jax.tree.leaves(state)) == moments + 1  # the count


def test_more_layers_than_there_are_cannot_be_frozen():
    optimizer = AdamW(frozen_layers=4)
    for use in (optimizer.init, optimizer.stop_frozen):
        with pytest.raises(ValueError, match="frozen_layers is 4; the encoder has 3"):
            use(tree())


@pytest.mark.parametrize("freezing", [{}, *FREEZING])
def test_what_is_frozen_whole_gets_no_gradient(freezing):
    optimizer, params = AdamW(**freezing), on_device(tree())
    if not freezing:
        assert optimizer.stop_frozen(params) is params
    same(optimizer.stop_frozen(params), params)

    def loss(params):
        leaves = jax.tree.leaves(optimizer.stop_frozen(params))
        return sum(leaf.sum() for leaf in leaves)

    gradients = jax.grad(loss)(params)["encoder"]
    for name, frozen in (
        ("embeddings", freezing.get("freeze_embeddings", False)),
        ("layers", freezing.get("frozen_layers") == LAYERS),
    ):
        for gradient in jax.tree.leaves(gradients[name]):
            np.testing.assert_array_equal(gradient, 0.0 if frozen else 1.0)


def test_the_average_follows_the_parameters():
    optimizer = AdamW(ema_decay=0.3, freeze_embeddings=True, frozen_layers=1)
    first, ema = tree(0)["encoder"], on_device(tree(0))
    expected, average = tree(0), jax.jit(optimizer.average)
    for step in range(6):
        params = tree(step + 1)
        encoder = params["encoder"]
        encoder["embeddings"] = first["embeddings"]
        for leaf, old in zip(
            *(jax.tree.leaves(part["layers"]) for part in (encoder, first)), strict=True
        ):
            leaf[0] = old[0]
        d = min(0.3, (1 + step) / (10 + step))
        expected = jax.tree.map(lambda e, p, d=d: d * e + (1 - d) * p, expected, params)
        params = on_device(params, jnp.float16 if step == 5 else jnp.float32)
        ema = average(ema, params, step)
    assert {leaf.dtype for leaf in jax.tree.leaves(ema)} == {jnp.dtype("float32")}
    close(ema, expected, rtol=1e-3, atol=1e-3)  # the last were float16
    same(ema["encoder"]["embeddings"], on_device(first["embeddings"]))
