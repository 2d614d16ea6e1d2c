"""METRO: weights of a reached F-beta, estimated again after each epoch."""

import signal

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sklearn.metrics

import dicejax.training.train as training
from dicejax.losses import class_weights, cross_entropy
from dicejax.metrics.score_counts import count_decisions
from dicejax.objectives import CrossEntropy, LinearSchedule, Metro, WeightedSum
from dicejax.optimizers import AdamW
from dicejax.training.run_folder import Run
from dicejax.training.setup import prepare
from dicejax.training.state import TrainState
from dicejax.training.step import train_step

from .losses import binding
from .training.commands import (
    finished_here,
    records,
    same_end,
    stop_at,
    words,
)
from .training.making import batch, network

RNG = np.random.default_rng(0)


def bound(objective, counts):
    return binding.bound(objective, {"x": np.array(counts)})


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
def test_the_bayes_threshold_is_that_of_parambath(beta):
    # The weighted cross-entropy of a probability eta is flat in the logit at 0, where
    # the decision changes, for eta = F / (1 + beta^2).
    with jax.enable_x64(True):
        for f in np.linspace(0.05, 0.95, 10):
            weights = class_weights.f_measure(f, beta=beta)

            def expected_loss(logit, eta, weights=weights):
                settings = {"class_axis": None, "class_weights": weights}
                losses = [
                    cross_entropy(logit, jnp.array(y), **settings) for y in (0, 1)
                ]
                return (1 - eta) * losses[0] + eta * losses[1]

            threshold = f / (1 + beta**2)
            slope = jax.grad(expected_loss)
            zero = np.zeros(())
            assert float(slope(zero, threshold)) == pytest.approx(0, abs=1e-15)
            assert float(slope(zero, threshold + 1e-6)) < 0
            assert float(slope(zero, threshold - 1e-6)) > 0


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
def test_at_the_highest_f_it_is_the_best_threshold(beta):
    # A population of calibrated probabilities, on a grid.
    eta = (np.arange(20_000) + 0.5) / 20_000
    mass = (1 - eta) ** 8 / np.sum((1 - eta) ** 8)
    correct = np.cumsum((mass * eta)[::-1])[::-1]  # of all from a threshold on
    wrong = np.cumsum((mass * (1 - eta))[::-1])[::-1]
    f = (1 + beta**2) * correct / (beta**2 * correct[0] + correct + wrong)
    negative, positive = class_weights.f_measure(f.max(), beta=beta)
    bayes = float(negative / (negative + positive))
    assert eta[f.argmax()] == pytest.approx(bayes, abs=1e-4)


def weighted_by_hand(logits, labels, f, beta):
    """Return the mean METRO loss in float64; labels are classes, or 0 and 1."""
    z = np.asarray(logits, np.float64)
    if labels.ndim == z.ndim:
        log_p, log_q = -np.logaddexp(0, -z), -np.logaddexp(0, z)
        losses = np.where(labels == 1, -(1 + beta**2 - f) * log_p, -f * log_q)
    else:
        log_p = z - np.logaddexp.reduce(z, axis=-1, keepdims=True)
        gold = np.maximum(labels, 0)[..., None]
        weights = np.where(labels == 0, f, 1 + beta**2 - f)
        losses = -weights * np.take_along_axis(log_p, gold, -1)[..., 0]
    return losses[labels >= 0].mean()


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
def test_losses_are_those_of_the_formula(beta):
    logits = RNG.normal(size=(40, 4))
    labels = RNG.integers(-1, 4, size=40)
    labels[labels < 0] = -100
    several = RNG.integers(0, 2, size=(40, 4))
    with jax.enable_x64(True):
        objective = bound(Metro(beta=beta, f=(0.3,)), [5, 1, 1, 1])
        loss, _ = objective({"x": jnp.array(logits)}, {"x": jnp.array(labels)})
        expected = weighted_by_hand(logits, labels, 0.3, beta)
        assert float(loss) == pytest.approx(expected, rel=1e-12)
        f = (0.1, 0.9, 0.5, 1.0)
        objective = bound(Metro(beta=beta, f=f), [[9, 1]] * 4)
        loss, _ = objective({"x": jnp.array(logits)}, {"x": jnp.array(several)})
        expected = weighted_by_hand(logits, several, np.array(f), beta)
        assert float(loss) == pytest.approx(expected, rel=1e-12)


def test_it_begins_as_cross_entropy():
    logits, labels = jnp.array(RNG.normal(size=(9, 3))), jnp.arange(9) % 3
    metro = bound(Metro(), [3, 3, 3])({"x": logits}, {"x": labels})
    assert metro == CrossEntropy()({"x": logits}, {"x": labels})


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
def test_f_is_that_of_scikit_learn(beta):
    gold = RNG.choice(3, 500, p=(0.9, 0.06, 0.04))
    logits = RNG.normal(size=(500, 3))
    logits[np.arange(500), gold] += 2
    cells = count_decisions(jnp.array(logits), jnp.array(gold), kind="classes")
    confusion = sklearn.metrics.multilabel_confusion_matrix(gold, logits.argmax(-1))
    np.testing.assert_array_equal(cells, confusion)
    score = sklearn.metrics.fbeta_score
    micro = score(gold, logits.argmax(-1), beta=beta, labels=[1, 2], average="micro")
    after = bound(Metro(beta=beta), [1, 1, 1]).after_epoch({"x": cells})
    assert after.f == (pytest.approx(micro, rel=1e-12),)
    several = (RNG.random((500, 3)) < (0.2, 0.1, 0.3)).astype(int)
    logits += 2 * several - 1
    masked = several.copy()
    masked[::7] = -100  # without effect
    cells = count_decisions(jnp.array(logits), jnp.array(masked), kind="multi_label")
    seen = masked[:, 0] >= 0
    each = score(several[seen], logits[seen] >= 0, beta=beta, average=None)
    after = bound(Metro(beta=beta), [[1, 1]] * 3).after_epoch({"x": cells.tolist()})
    np.testing.assert_allclose(after.f, each, rtol=1e-12)


def test_f_is_never_below_that_of_calling_all_positive():
    # By class: gold 0 or 1, predicted 0 or 1. Nothing is predicted.
    cells = [[[0, 20], [0, 80]], [[80, 0], [20, 0]]]
    after = bound(Metro(), [80, 20]).after_epoch({"x": cells})
    gold = np.repeat([0, 1], [80, 20])
    assert after.f[0] == pytest.approx(sklearn.metrics.f1_score(gold, gold * 0 + 1))
    # A class without positives on dev keeps its F.
    several = [[[90, 0], [10, 0]], [[95, 5], [0, 0]]]
    after = bound(Metro(f=(0.7, 0.6)), [[9, 1], [9, 1]]).after_epoch({"x": several})
    assert after.f == (pytest.approx(2 * 10 / 110), 0.6)


def test_members_of_others_are_estimated_too():
    cells = {"x": [[[0, 20], [0, 80]], [[80, 0], [10, 10]]]}
    parts = (CrossEntropy(), Metro())
    for objective in (WeightedSum(parts=parts), LinearSchedule(then=Metro())):
        after = bound(objective, [80, 20]).after_epoch(cells)
        assert after.members[1].f == (pytest.approx(2 / 3),)
        assert type(after) is type(objective)
    assert CrossEntropy().after_epoch(cells) == CrossEntropy()


def test_another_f_runs_the_program_already_compiled():
    net, arrays = network(), batch()
    net_params = net.init(jax.random.key(0))
    optimizer, sizes = AdamW(), []
    for f in (1.0, 0.4, 0.2):
        state = TrainState.create(
            jax.tree.map(jnp.copy, net_params),
            optimizer,
            total_steps=3,
            rng=jax.random.key(1),
        )
        objective = Metro(output="tags", f=(f,))
        train_step(state, arrays, objective, network=net, optimizer=optimizer)
        sizes.append(train_step._cache_size())
    assert sizes[0] == sizes[2]


def test_f_changes_after_each_epoch_and_resumed_runs_end_alike(tmp_path):
    whole, stopped, plain = (tmp_path / name for name in ("whole", "stopped", "ce"))
    more = {"--loss": "metro", "--training.epochs": 3}
    finished_here(whole, **more)
    finished_here(plain, **more | {"--loss": "ce"})
    ours, theirs = records(whole), records(plain)
    last = next(n for n, r in enumerate(ours) if r["epoch"] > 0)
    # The first epoch is that of cross-entropy, whose program has no weights.
    for name in ("loss", "gradient_norm"):
        first = [record[name] for record in theirs[:last]]
        assert [r[name] for r in ours[:last]] == pytest.approx(first, rel=1e-5)
    assert ours[last]["loss"] != theirs[last]["loss"]
    # In the third epoch, and at the end of the second before dev is scored.
    for step in (last * 2 + 3, last * 2):
        out = stopped / str(step)
        stop_at(step, signal.SIGTERM, words(out, **more))
        finished_here(out, **more)
        same_end(out, whole)


def test_each_epoch_has_the_f_of_the_weights_before_it(tmp_path, monkeypatch):
    used, ends, real = [], [], (training.train_step, training.Checkpoints.save)

    def step(state, arrays, objective, **settings):
        used.append(float(objective.f[0]))
        return real[0](state, arrays, objective, **settings)

    def save(checkpoints, step, state, score, notes):
        ends.append((len(used), jax.device_get(state.params)))
        real[1](checkpoints, step, state, score, notes)

    monkeypatch.setattr(training, "train_step", step)
    monkeypatch.setattr(training.Checkpoints, "save", save)
    more = {"--data.train": 600, "--training.epochs": 5}
    more |= {"--optimizer.learning_rate": 0.003, "--training.log_every": 100}
    more |= {"--recording.checkpoint_every": 1000}
    finished_here(tmp_path, **more, **{"--loss": "metro"})
    setup = prepare(Run.at(str(tmp_path)).experiment(), lambda text: None)
    apply = jax.jit(setup.network.apply)

    dev = setup.data.items["dev"]
    lengths = np.array([[len(item)] for item in dev])
    rows = [np.pad(x.arrays["input_ids"], (0, 64 - len(x))) for x in dev]
    inputs = {"input_ids": np.stack(rows)}
    inputs["token_type_ids"] = 0 * inputs["input_ids"]
    inputs["position_ids"] = inputs["token_type_ids"] + np.arange(64)
    inputs["segment_ids"] = (inputs["position_ids"] < lengths).astype(int)
    tags = np.concatenate([np.array(item.arrays["tags"]) for item in dev])
    gold = tags[tags >= 0]

    def f1(params):
        chosen = np.argmax(apply(params, inputs)["tags"], axis=-1)
        predicted = chosen[inputs["segment_ids"] > 0][tags >= 0]
        classes = [*range(1, len(setup.data.labels))]
        score = sklearn.metrics.f1_score(
            gold, predicted, labels=classes, average="micro"
        )
        share = np.mean(np.array(gold) > 0)
        return score, 2 * share / (1 + share)

    starts, above = [0, *(end for end, _ in ends)], 0
    assert {*used[: starts[1]]} == {1.0}
    for (end, params), stop in zip(ends[:-1], starts[2:], strict=True):
        reached, least = f1(params)
        above += reached > least
        (f,) = {*used[end:stop]}
        assert f == pytest.approx(max(reached, least), rel=1e-6)
    assert 0 < above < len(ends) - 1  # both cases
