"""The update rules vs. NumPy and optax, and their settings."""

import collections
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import tyro

from dicejax.cli import process
from dicejax.config import Experiment, from_json, to_json
from dicejax.data.synthetic import SyntheticNER
from dicejax.optimizers import AdamW, Optimizer, by_short_name, decay_mask

from ..models.small import KINDS, encoder_of, network_of
from .trees import RULES, Signs, close, on_device, run, tree


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


@pytest.mark.parametrize("clip", [0.5, np.inf])
def test_updates_equal_the_algorithm(clip):
    rng = np.random.default_rng(0)
    params = {"kernel": rng.normal(size=(3, 2)), "bias": rng.normal(size=2)}
    gradients = {n: rng.normal(size=p.shape) for n, p in params.items()}
    optimizer = AdamW(learning_rate=0.1, warmup=0.2, weight_decay=0.3, clip_norm=clip)
    rates = [float(optimizer.rate(step, 5)) for step in range(5)]
    with jax.enable_x64(True):  # 1 - 0.999 has four digits in float32
        update = run(
            optimizer, on_device(params, float), [on_device(gradients, float)] * 5
        )
    decay = {"kernel": 0.3, "bias": 0.0}
    expected = adamw(params, gradients, rates, decay=decay, clip=clip)
    close(update.params, expected, rtol=1e-7)
    norm = np.sqrt(sum((g**2).sum() for g in gradients.values()))
    assert float(update.gradient_norm) == pytest.approx(norm)
    assert float(update.learning_rate) == pytest.approx(rates[-1])


def test_defaults_trace_nothing_beyond_the_plain_rule():
    optimizer, params = AdamW(), on_device(tree())
    state = optimizer.init(params)

    def clip(g, _):
        return optax.tree.scale(jnp.minimum(1.0, 1.0 / optax.tree.norm(g)), g)

    def plain(gradients, state, params, step, total):
        rule = optax.chain(
            optax.stateless(clip),
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


REFUSED = {
    "warmup": (2, float("nan")),
    "final_share": (-0.1,),
    "learning_rate": (0.0,),
    "clip_norm": (-1.0,),
    "power": (0.0,),
    "head_learning_rate": (0.0, 2e-3, float("nan")),  # 2e-3 is a rate
    "weight_decay": (-0.01,),
    "frozen_layers": (-1,),
    "layer_decay": (0.0, 1.1),
    "ema_decay": (1.0,),
    "schedule": ("cosin",),
}
REFUSED_BY_ADAMW = REFUSED | {"b1": (1.0,), "b2": (-0.1,), "eps": (0.0, -1e-6)}


@pytest.mark.parametrize(
    ("rule", "refused"), [(AdamW, REFUSED_BY_ADAMW), (Signs, REFUSED)]
)
def test_impossible_settings_are_refused(rule, refused):
    for name, values in refused.items():
        for value in values:
            with pytest.raises(ValueError, match=f"^{name} is {value}; want "):
                rule(**{name: value})


def test_a_rule_must_be_there_and_have_a_name_on_the_command_line():
    with pytest.raises(TypeError, match="abstract method"):
        Optimizer()
    names = by_short_name()
    assert names["adamw"] is AdamW and Signs not in names.values()


@pytest.mark.parametrize("rule", RULES)
def test_settings_survive_json_and_the_command_line(rule, capsys):
    settings = {"schedule": "one_cycle", "head_learning_rate": 10.0}
    optimizer = rule(**settings, freeze_embeddings=True)
    experiment = Experiment(name="n", data=SyntheticNER(), optimizer=optimizer)
    assert from_json(to_json(experiment)).optimizer == optimizer
    flags = "--schedule one_cycle --head-learning-rate 10 --freeze-embeddings"
    assert tyro.cli(rule, args=flags.split()) == optimizer
    assert tyro.cli(rule, args=[]) == rule()
    with pytest.raises(SystemExit):
        tyro.cli(rule, args=["--help"])
    help_text = " ".join(capsys.readouterr().out.replace("│", " ").split())
    for words in ("peak learning rate, at the end", "are scaled down to this"):
        assert words in help_text


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", KINDS)
def test_networks_have_the_parameters_that_the_rules_expect(rule, kind):
    network = network_of(encoder_of(kind, 4, 8, heads=2))
    params = jax.eval_shape(network.init, jax.random.key(0))
    optimizer = rule(freeze_embeddings=True, frozen_layers=1, layer_decay=0.9)
    state = jax.eval_shape(optimizer.init, params)
    new = jax.eval_shape(optimizer.update, params, state, params, 0, 10)
    assert new.params == params
    assert new.opt_state == state
    stopped = jax.make_jaxpr(optimizer.stop_frozen)(params)
    assert len(stopped.eqns) == len(jax.tree.leaves(params["encoder"]["embeddings"]))


@pytest.mark.parametrize("prepare", ["", "spare_copies()"])
def test_the_command_has_moments_overwritten_where_they_are(prepare):
    code = f"""
from dicejax.cli.process import spare_copies
{prepare}
import jax
from dicejax.optimizers import AdamW
rule = AdamW()
layers = {{"kernel": jax.numpy.ones((2, 64, 64))}}
params = {{"encoder": {{"layers": layers}}, "heads": {{"x": jax.numpy.ones(9)}}}}
def step(params, state, gradients):
    update = rule.update(gradients, state, params, 0, 10)
    new, fine = (update.params, update.opt_state), update.gradient_norm < 9
    choose = lambda new, old: jax.numpy.where(fine, new, old)
    return jax.tree.map(choose, new, (params, state))
compiled = jax.jit(step, donate_argnums=(0, 1)).lower(params, rule.init(params), params)
print(compiled.compile().as_text().count(" copy("))"""
    env = {name: text for name, text in os.environ.items() if name != "XLA_FLAGS"}
    argv = [sys.executable, "-c", code]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, env=env)
    assert (int(done.stdout) == 0) == (prepare != "")


def test_versions_that_may_lack_the_flag_are_left_alone(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--other=1")
    monkeypatch.setattr(process.importlib.metadata, "version", lambda name: "0.99.0")
    process.spare_copies()
    assert os.environ["XLA_FLAGS"] == "--other=1"
