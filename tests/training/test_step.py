"""One step: the same on eight devices as on one, one program for all alphas."""

import jax
import numpy as np
import pytest

from dicejax.objectives import (
    GHM,
    CrossEntropy,
    Dice,
    LinearSchedule,
    SelfAdjustingDice,
    StepSchedule,
)
from dicejax.optimizers import AdamW
from dicejax.tasks import Tagging
from dicejax.training.accumulation import scale_gradients
from dicejax.training.state import TrainState
from dicejax.training.step import predict_step, train_step

from ..kinds import exhaustive_but
from .making import batch, network

# One for several tests: each other one is another program.
OPTIMIZER = AdamW(learning_rate=2e-2)


def take_steps(objective, count, optimizer=OPTIMIZER):
    """Return the state after some of forty steps, and their losses."""
    net, losses = network(dropout=0.0), []
    state = TrainState.create(
        net.init(jax.random.key(0)),
        optimizer,
        total_steps=40,
        rng=jax.random.key(1),
        objective_state=objective.initial_state(),
    )
    for _ in range(count):
        state, metrics = train_step(
            state, batch(), objective, network=net, optimizer=optimizer
        )
        losses.append(float(metrics["loss"]))
    return state, losses


LEARNING = (SelfAdjustingDice(), CrossEntropy(), Dice(), LinearSchedule())


@pytest.mark.parametrize("objective", exhaustive_but(LEARNING[:1], LEARNING))
def test_training_on_one_batch_learns_it(objective):
    state, losses = take_steps(objective, 40)
    assert int(state.step) == 40
    assert losses[-1] < 0.6 * losses[0]


def test_steps_reproduce_bit_for_bit():
    first, second = (
        jax.device_get(take_steps(SelfAdjustingDice(), 5)[0].params) for _ in range(2)
    )
    jax.tree.map(np.testing.assert_array_equal, first, second)


def test_a_new_alpha_runs_the_same_program():
    _, first = take_steps(SelfAdjustingDice(alpha=0.01), 1)
    programs = train_step._cache_size()
    assert take_steps(SelfAdjustingDice(alpha=0.5), 1)[1] != first
    assert train_step._cache_size() == programs


def test_new_rates_run_the_same_program():
    start, slow, fast = (
        jax.device_get(take_steps(CrossEntropy(), steps, optimizer)[0].params)
        for steps, optimizer in (
            (0, OPTIMIZER),
            (1, OPTIMIZER),
            (1, AdamW(learning_rate=8e-2, head_learning_rate=3.0)),
        )
    )
    programs = train_step._cache_size()
    for part, factor in (("encoder", 4), ("heads", 12)):
        jax.tree.map(
            lambda x, y, z, factor=factor: np.testing.assert_allclose(
                z - x, factor * (y - x), rtol=1e-4, atol=1e-6
            ),
            *(params[part] for params in (start, slow, fast)),
        )
    take_steps(CrossEntropy(), 1, AdamW(learning_rate=1e-3, head_learning_rate=10.0))
    assert train_step._cache_size() == programs


def test_the_objective_s_state_goes_from_step_to_step():
    state, _ = take_steps(GHM(bins=4), 3, AdamW())
    density = state.objective_state
    assert float(density.updates) == 3.0
    # The averages of three equal batches sum to 1 - m^3 of a batch's tokens.
    tokens = (batch()["tags"] >= 0).sum()
    assert float(density.counts.sum()) == pytest.approx(tokens * (1 - 0.75**3))


def test_a_schedule_follows_the_steps():
    schedule = StepSchedule(first=Dice(), then=CrossEntropy(), at=0.05)
    _, losses = take_steps(schedule, 4, AdamW(learning_rate=1e-12))
    # Two of forty steps are below 0.05; dice is below 1, cross-entropy of four
    # classes at random weights above it.
    assert max(losses[:2]) < 1 < min(losses[2:])


def test_prediction_is_the_argmax_of_the_logits():
    params, rows = network().init(jax.random.key(0)), batch()
    (predicted,), _ = predict_step(params, rows, network=network(), task=Tagging())
    logits = network().apply(params, rows)["tags"]
    np.testing.assert_array_equal(predicted.tokens["tags"], np.argmax(logits, axis=-1))


def test_weights_of_examples_scale_their_gradients_and_no_value():
    """As if the loss of each element had been multiplied."""
    rng, rows = np.random.default_rng(0), batch()
    of_sequences = rng.uniform(0.5, 2, (64, 2)).astype(np.float32)
    padded = np.pad(of_sequences, ((0, 0), (1, 0)))
    of_tokens = np.take_along_axis(padded, rows["segment_ids"], axis=1)
    weights = {"token_weights": of_tokens, "sequence_weights": of_sequences}
    logits = {
        "tags": rng.normal(size=(64, 8, 4)).astype(np.float32),
        "label": rng.normal(size=(64, 2, 3)).astype(np.float32),
    }
    labels = {"tags": rows["tags"], "label": rng.integers(0, 3, (64, 2))}
    for name in logits:
        mask = labels[name] >= 0
        targets = np.where(mask, labels[name], 0)
        factors = of_tokens if name == "tags" else of_sequences

        def loss(values, targets=targets, mask=mask):
            log_p = jax.nn.log_softmax(values)
            return -((np.eye(values.shape[-1])[targets] * log_p).sum(-1) * mask)

        def ours(values, name=name, loss=loss):
            return loss(scale_gradients({name: values}, rows | weights)[name]).sum()

        value, gradient = jax.value_and_grad(ours)(logits[name])
        np.testing.assert_allclose(value, loss(logits[name]).sum(), rtol=1e-6)
        expected = jax.grad(lambda v, f=loss, w=factors: (w * f(v)).sum())(logits[name])
        np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-7)
