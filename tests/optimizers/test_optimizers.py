"""The update rules vs. NumPy and optax, and their settings."""

import collections
import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import tyro

from dicejax.config import Experiment, from_json, to_json
from dicejax.data.sources import SyntheticNER
from dicejax.models.bert import BertConfig
from dicejax.models.deberta import DebertaConfig
from dicejax.models.heads import TokenHead
from dicejax.models.network import Network
from dicejax.models.xlnet import XLNetConfig
from dicejax.optimizers import (
    LAMB,
    Adafactor,
    AdamW,
    Lion,
    by_short_name,
    decay_mask,
    per_layer,
)

from .trees import STEADY, close, on_device, run, same, tree, unstacked

RULES = (AdamW, Lion, Adafactor, LAMB)


def adamw(params, gradients, rates, *, decay, clip, b1=0.9, b2=0.999, eps=1e-8):
    """Apply Loshchilov & Hutter (2019), algorithm 2, after clipping by global norm."""
    m = {n: np.zeros_like(p) for n, p in params.items()}
    v = {n: np.zeros_like(p) for n, p in params.items()}
    for t, rate in enumerate(rates, start=1):
        norm = np.sqrt(sum((g**2).sum() for g in gradients.values()))
        for n in params:
            g = gradients[n] * min(1.0, clip / norm)
            m[n] = b1 * m[n] + (1 - b1) * g
            v[n] = b2 * v[n] + (1 - b2) * g**2
            step = (m[n] / (1 - b1**t)) / (np.sqrt(v[n] / (1 - b2**t)) + eps)
            params = params | {n: params[n] - rate * (step + decay[n] * params[n])}
    return params


def test_updates_equal_the_algorithm():
    rng = np.random.default_rng(0)
    params = {"kernel": rng.normal(size=(3, 2)), "bias": rng.normal(size=2)}
    gradients = {n: rng.normal(size=p.shape) for n, p in params.items()}
    optimizer = AdamW(learning_rate=0.1, warmup=0.2, weight_decay=0.3, clip_norm=0.5)
    rates = [float(optimizer.rate(step, 5)) for step in range(5)]
    with jax.enable_x64(True):  # 1 - 0.999 has four digits in float32
        ours = on_device(params, float)
        grads = on_device(gradients, float)
        state = optimizer.transform().init(ours)
        for rate in rates:
            updates, state = optimizer.transform().update(grads, state, ours)
            ours = {n: p - rate * updates[n] for n, p in ours.items()}
        update = run(optimizer, on_device(params, float), [grads] * 5)
    decay = {"kernel": 0.3, "bias": 0.0}
    wanted = adamw(params, gradients, rates, decay=decay, clip=0.5)
    close(ours, wanted, rtol=1e-7)
    close(update.params, wanted, rtol=1e-7)
    norm = np.sqrt(sum((g**2).sum() for g in gradients.values()))
    assert float(update.gradient_norm) == pytest.approx(norm)
    assert float(update.learning_rate) == pytest.approx(rates[-1])


def lamb_step(p, g, *, rate, decay, adapted, eps=1e-6):
    """Apply You et al. (2020), algorithm 2, first step, to one tensor of one layer."""
    u = g / (np.abs(g) + eps) + decay * p  # the first moments are g and g^2
    ratio = np.linalg.norm(p) / np.linalg.norm(u) if adapted else 1.0
    return p - rate * ratio * u


def test_lamb_takes_the_norms_of_each_layer():
    params, gradients = tree(0), tree(1)
    norm = np.sqrt(sum((g**2).sum() for g in jax.tree.leaves(gradients)))
    optimizer = LAMB(learning_rate=0.1, weight_decay=0.3, clip_norm=0.5, **STEADY)
    with jax.enable_x64(True):
        got = run(optimizer, on_device(params, float), [on_device(gradients, float)])
        got = jax.device_get(unstacked(got.params))

    def wanted(path, p, g):
        plain = path[-1].key in ("bias", "scale")
        decay = 0.0 if plain else 0.3
        g = g * 0.5 / norm
        return lamb_step(p, g, rate=0.1, decay=decay, adapted=not plain)

    close(
        got,
        jax.tree_util.tree_map_with_path(
            wanted, unstacked(params), unstacked(gradients)
        ),
        rtol=1e-6,  # the rate is float32
    )


def plain_optax(optimizer):
    """Return optax's rule, without clipping."""
    rate, decay = optimizer.learning_rate, optimizer.weight_decay
    match optimizer:
        case AdamW():
            return optax.adamw(rate, weight_decay=decay, mask=decay_mask)
        case Lion():
            return optax.lion(rate, weight_decay=decay, mask=decay_mask)
        case Adafactor():
            return optax.adafactor(
                rate,
                min_dim_size_to_factor=optimizer.min_dim_size_to_factor,
                # Their decay is not multiplied by the rate.
                weight_decay_rate=rate * decay,
                weight_decay_mask=decay_mask,
            )
        case LAMB():  # theirs would scale biases too
            kernels = optax.lamb(rate, weight_decay=decay)
            rest = optax.adam(rate, eps=1e-6)
            return optax.partition(
                {True: kernels, False: rest},
                lambda params: decay_mask(params),
            )


@pytest.mark.parametrize(
    "optimizer",
    [
        AdamW(),
        Lion(learning_rate=0.01, weight_decay=0.3),
        LAMB(learning_rate=0.01, weight_decay=0.3),
        Adafactor(learning_rate=0.01, weight_decay=0.3, min_dim_size_to_factor=4),
        Adafactor(learning_rate=0.01),
    ],
)
def test_several_steps_are_those_of_optax_on_layers_by_themselves(optimizer):
    optimizer = dataclasses.replace(optimizer, clip_norm=1e9, **STEADY)
    gradients = [on_device(tree(seed)) for seed in (1, 2, 3)]
    params = on_device(tree(0))
    got = run(optimizer, params, gradients).params
    wanted, theirs = unstacked(params), plain_optax(optimizer)
    state, update = theirs.init(wanted), jax.jit(theirs.update)
    for gradient in gradients:
        updates, state = update(unstacked(gradient), state, wanted)
        wanted = optax.apply_updates(wanted, updates)
    close(unstacked(got), wanted, rtol=2e-5, atol=1e-6)


OF_TENSORS = [
    optax.scale_by_trust_ratio(),
    optax.clip_by_block_rms(0.1),
    optax.scale_by_param_block_rms(),
]
FACTORED = optax.scale_by_factored_rms(min_dim_size_to_factor=4)


def stacked_and_by_themselves(transform, params, gradients):
    """Return two updates by `per_layer`, and with a leaf per layer."""
    ours, theirs = per_layer(transform), transform
    ours_update, theirs_update = jax.jit(ours.update), jax.jit(theirs.update)
    state, wanted_state = ours.init(params), theirs.init(unstacked(params))
    for gradient in gradients:
        got, state = ours_update(gradient, state, params)
        wanted, wanted_state = theirs_update(
            unstacked(gradient), wanted_state, unstacked(params)
        )
    return unstacked(got), wanted


@pytest.mark.parametrize("transform", OF_TENSORS)
def test_a_stack_is_its_layers_exactly(transform):
    # Sums of small whole numbers are exact in whatever order they are taken.
    whole = [jax.tree.map(lambda x: np.round(400 * x), tree(seed)) for seed in (0, 1)]
    params, gradient = map(on_device, whole)
    same(*stacked_and_by_themselves(transform, params, [gradient]))


@pytest.mark.parametrize("transform", [*OF_TENSORS, FACTORED, optax.scale_by_adam()])
def test_a_stack_is_its_layers(transform):
    with jax.enable_x64(True):
        params, *gradients = [on_device(tree(seed), float) for seed in (0, 1, 2)]
        found = stacked_and_by_themselves(transform, params, gradients)
        close(*found, rtol=1e-6 if transform is FACTORED else 1e-13)  # d is float32


def test_per_layer_does_without_layers():
    params = {"heads": {"kernel": jnp.ones((2, 2))}}
    wrapped = per_layer(optax.scale_by_param_block_rms())
    updates, _ = wrapped.update(params, wrapped.init(params), params)
    same(updates, params)


def test_defaults_trace_nothing_beyond_the_plain_rule():
    optimizer, params = AdamW(), on_device(tree())
    state = optimizer.init(params)

    def plain(gradients, state, params, step, total):
        rule = optax.chain(
            optax.clip_by_global_norm(1.0),
            optax.scale_by_adam(),
            optax.add_decayed_weights(0.01, decay_mask),
        )
        updates, state = rule.update(gradients, state, params)
        rate = optimizer.rate(step, total)
        params = jax.tree.map(lambda p, u: p - rate * u, params, updates)
        return params, state, rate, optax.tree.norm(gradients)

    def operations(function):
        program = jax.make_jaxpr(function)(params, state, params, 0, 10)
        return collections.Counter(eqn.primitive.name for eqn in program.eqns)

    assert operations(optimizer.update) == operations(plain)


def test_biases_and_scales_are_not_decayed():
    params = {"layers": {"query": {"kernel": 0, "bias": 0}, "norm": {"scale": 0}}}
    assert decay_mask(params) == {
        "layers": {"query": {"kernel": True, "bias": False}, "norm": {"scale": False}}
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("warmup", 2),
        ("warmup", float("nan")),
        ("final_share", -0.1),
        ("learning_rate", 0.0),
        ("clip_norm", -1.0),
        ("power", 0.0),
        ("head_learning_rate", 0.0),
        ("weight_decay", -0.01),
        ("frozen_layers", -1),
        ("layer_decay", 0.0),
        ("layer_decay", 1.1),
        ("ema_decay", 1.0),
        ("schedule", "cosin"),
    ],
)
@pytest.mark.parametrize("rule", RULES)
def test_impossible_settings_are_refused(rule, name, value):
    with pytest.raises(ValueError, match=f"{name} is {value}; want "):
        rule(**{name: value})


@pytest.mark.parametrize(
    ("rule", "name", "value"),
    [
        (AdamW, "b1", 1.0),
        (AdamW, "eps", 0.0),
        (Lion, "b2", -0.1),
        (Adafactor, "decay_rate", 1.5),
        (Adafactor, "clipping_threshold", 0.5),
        (Adafactor, "min_dim_size_to_factor", 0),
        (LAMB, "b2", 1.0),
        (LAMB, "eps", -1e-6),
    ],
)
def test_impossible_settings_of_a_rule_are_refused(rule, name, value):
    with pytest.raises(ValueError, match=f"{name} is {value}; want "):
        rule(**{name: value})


def test_a_refusal_says_what_is_wanted():
    with pytest.raises(ValueError) as refusal:
        AdamW(warmup=2)
    assert str(refusal.value) == "warmup is 2; want a share between 0 and 1"


def test_every_rule_has_a_name_for_the_command_line():
    names = {"adamw": AdamW, "lion": Lion, "adafactor": Adafactor, "lamb": LAMB}
    assert by_short_name() == names


@pytest.mark.parametrize("rule", RULES)
def test_settings_survive_json_and_the_command_line(rule):
    optimizer = rule(
        schedule="one_cycle", head_learning_rate=1e-3, freeze_embeddings=True
    )
    experiment = Experiment(name="n", data=SyntheticNER(), optimizer=optimizer)
    assert from_json(to_json(experiment)).optimizer == optimizer
    given = ["--schedule", "one_cycle", "--head-learning-rate", "1e-3"]
    assert tyro.cli(rule, args=[*given, "--freeze-embeddings"]) == optimizer
    assert tyro.cli(rule, args=[]) == rule()


@pytest.mark.parametrize("rule", RULES)
def test_the_command_line_explains_every_setting(rule, capsys):
    with pytest.raises(SystemExit):
        tyro.cli(rule, args=["--help"])
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    for words in ("peak learning rate, at the end", "are scaled down to this"):
        assert words in shown


SMALL = {
    "vocab_size": 9,
    "hidden_size": 4,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 8,
}
ENCODERS = [
    BertConfig(**SMALL),
    DebertaConfig(**SMALL),
    XLNetConfig(vocab_size=9, d_model=4, n_layer=2, n_head=2, d_inner=8),
]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("encoder", ENCODERS, ids=lambda e: e.model_type)
def test_networks_have_the_parameters_that_the_rules_expect(rule, encoder):
    network = Network(encoder=encoder, heads=(("tags", TokenHead(classes=3)),))
    params = jax.eval_shape(network.init, jax.random.key(0))
    optimizer = rule(freeze_embeddings=True, frozen_layers=1, layer_decay=0.9)
    state = jax.eval_shape(optimizer.init, params)
    new = jax.eval_shape(optimizer.update, params, state, params, 0, 10)
    assert new.params == params
    assert new.opt_state == state
    stopped = jax.make_jaxpr(optimizer.stop_frozen)(params)
    assert len(stopped.eqns) == len(jax.tree.leaves(params["encoder"]["embeddings"]))
