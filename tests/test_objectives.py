"""Objectives against the losses they stand for, in NumPy."""

import dataclasses
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.metrics import f1_score

from dicejax import losses, objectives
from dicejax.objectives import (
    GHM,
    LDAM,
    ZLPR,
    Asymmetric,
    CrossEntropy,
    Dice,
    DiceSemimetric,
    DistributionBalanced,
    Focal,
    FocalTversky,
    GeneralizedDice,
    HardNegatives,
    Jaccard,
    LinearSchedule,
    LogCoshDice,
    LogitAdjusted,
    LovaszSoftmax,
    MajorityOrMinority,
    Poly,
    SelfAdjustingDice,
    SigmoidF1,
    SoftF1,
    StepSchedule,
    Tversky,
    UnifiedFocal,
    VectorScaling,
    WeightedCrossEntropy,
    WeightedSum,
    by_short_name,
)

from .losses import oracle, oracle_density, oracle_pointwise, oracle_sets

RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=(3, 4, 5)).astype(np.float32)
LABELS = RNG.integers(0, 5, (3, 4))
LABELS[0, 2:] = -100
SEEN = LABELS != -100
MANY = np.where(SEEN[..., None], LABELS[..., None] == np.arange(5), -100)
COUNTS = np.array([60, 20, 10, 6, 4])
TENTH = np.log10(100 / COUNTS)  # lg((n - n_t)/n_t + 1)


def value(objective, **keywords):
    outputs, targets = {"tags": LOGITS, "other": LOGITS * 0}, {"tags": LABELS}
    return float(objective.fitted({"tags": COUNTS})(outputs, targets, **keywords)[0])


def mean(values):
    return values.sum() / SEEN.sum()


def hard_negatives():
    each = oracle_pointwise.cross_entropy(LOGITS, LABELS)
    negative = LABELS == 0
    worst = np.sort(each[negative])[::-1][:2]  # one for each two positives, at least 2
    return np.append(each[SEEN & ~negative], worst).mean()


BATCH = (LOGITS, LABELS)
WANTED = [
    (CrossEntropy(), mean(oracle_pointwise.cross_entropy(*BATCH))),
    (
        WeightedCrossEntropy(),
        mean(oracle_pointwise.cross_entropy(*BATCH, class_weights=TENTH)),
    ),
    (
        WeightedCrossEntropy(scheme="inverse", label_smoothing=0.2),
        mean(
            oracle_pointwise.cross_entropy(
                *BATCH, class_weights=20 / COUNTS, label_smoothing=0.2
            )
        ),
    ),
    (Focal(gamma=3.0), mean(oracle_pointwise.focal(*BATCH, gamma=3.0))),
    (
        Focal(scheme="log_ratio"),
        mean(oracle_pointwise.focal(*BATCH, class_weights=TENTH)),
    ),
    (Poly(epsilon=2.0), mean(oracle_pointwise.poly(*BATCH, epsilon=2.0))),
    (
        MajorityOrMinority(weight=0.3),
        mean(oracle_pointwise.majority_or_minority(*BATCH, weight=0.3)),
    ),
    (
        LogitAdjusted(tau=0.5),
        mean(oracle_pointwise.logit_adjusted(*BATCH, class_counts=COUNTS, tau=0.5)),
    ),
    (LDAM(), mean(oracle_pointwise.ldam(*BATCH, class_counts=COUNTS))),
    (VectorScaling(), mean(oracle_pointwise.vs(*BATCH, class_counts=COUNTS))),
    (Asymmetric(), mean(oracle_pointwise.asymmetric(LOGITS, MANY))),
    (ZLPR(), mean(oracle_pointwise.zlpr(LOGITS, MANY))),
    (
        DistributionBalanced(),
        mean(
            oracle_pointwise.distribution_balanced(
                LOGITS, MANY, positives=COUNTS, total=100
            )
        )
        / 5,
    ),
    (HardNegatives(negatives_per_positive=0.0, minimum=2.0), hard_negatives()),
    (
        GHM(),
        mean(oracle_density.ghm(*BATCH, oracle_density.Density(np.zeros(10), 0))[0]),
    ),
    (Dice(smooth=0.5), oracle.dice(*BATCH, smooth=0.5).mean()),
    (Dice(squared=True), oracle.dice(*BATCH, squared=True).mean()),
    (
        SelfAdjustingDice(alpha=0.3),
        oracle.dice(*BATCH, alpha=0.3, squared=True).mean(),
    ),
    (
        SelfAdjustingDice(alpha=0.3, squared=False),
        oracle.dice(*BATCH, alpha=0.3).mean(),
    ),
    (
        SelfAdjustingDice(alpha=1.0, over="token"),
        mean(oracle.gold_self_adjusting_dice(*BATCH, alpha=1.0)),
    ),
    (LogCoshDice(), oracle.log_cosh_dice(*BATCH).mean()),
    (GeneralizedDice(), oracle_sets.generalized_dice(*BATCH)),
    (DiceSemimetric(variant="dml2"), oracle.dice(*BATCH).mean()),
    (
        Tversky(alpha=0.2, beta=0.8),
        oracle_sets.tversky(*BATCH, alpha=0.2, beta=0.8).mean(),
    ),
    (FocalTversky(), oracle_sets.focal_tversky(*BATCH).mean()),
    (Jaccard(smooth=2.0), oracle_sets.jaccard(*BATCH, smooth=2.0).mean()),
    (
        SoftF1(average="micro", exclude_class=0),
        oracle_sets.soft_f1(*BATCH, average="micro", exclude_class=0, smooth=1.0),
    ),
    (SigmoidF1(), oracle_sets.sigmoid_f1(LOGITS, MANY, smooth=1.0)),
    (UnifiedFocal(gamma=0.2), oracle_sets.unified_focal(*BATCH, gamma=0.2)),
    (LovaszSoftmax(), oracle_sets.lovasz_softmax(*BATCH).mean()),
    (
        WeightedSum(weights=(0.5, 2.0)),
        mean(oracle_pointwise.cross_entropy(*BATCH)) / 2
        + 2 * oracle.dice(*BATCH).mean(),
    ),
]


@pytest.mark.parametrize(("objective", "wanted"), WANTED, ids=lambda one: str(one)[:60])
def test_value_against_numpy(objective, wanted):
    assert value(objective) == pytest.approx(float(wanted), rel=1e-5)


def test_every_objective_is_tested_but_the_schedules():
    tested = {type(objective) for objective, _ in WANTED}
    assert set(by_short_name().values()) - tested == {LinearSchedule, StepSchedule}


def test_every_loss_has_an_objective():
    # dice of a pointwise set, class weights and functions of counts are settings.
    of_losses = {
        name
        for name in losses.__all__
        if hasattr(getattr(losses, name), "jitted") and not name.endswith("counts")
    }
    named = {"cross_entropy": "ce", "majority_or_minority": "mom"}
    named |= {"self_adjusting_dice": "dsc", "lovasz_softmax": "lovasz"}
    assert {named.get(name, name) for name in of_losses} <= set(by_short_name())


@pytest.mark.parametrize(("objective", "wanted"), WANTED, ids=lambda one: str(one)[:60])
def test_gradients_are_finite_where_nothing_is_labelled(objective, wanted):
    del wanted
    objective = objective.fitted({"tags": COUNTS})
    nothing = {"tags": jnp.full_like(LABELS, -100)}

    @jax.jit
    def both(logits):
        def loss(logits):
            return objective({"tags": logits}, nothing)[0]

        return jax.value_and_grad(loss)(logits)

    result, gradient = both(LOGITS)
    assert float(result) == 0.0
    assert not gradient.any()


@pytest.mark.parametrize("name", by_short_name())
def test_descending_it_learns_a_rare_class(name):
    # 8 of 200 tokens have label 1; a token's features tell its label, with noise.
    rng = np.random.default_rng(1)
    labels = (np.arange(200) < 8).astype(int)
    features = (rng.normal(size=(200, 3)) + 3 * labels[:, None]).astype(np.float32)
    objective = by_short_name()[name]().fitted({"tags": np.bincount(labels)})

    def loss(weights, state, progress):
        logits = features @ weights[:3] + weights[3]
        return objective({"tags": logits}, {"tags": labels}, state, progress)

    @jax.jit
    def descend(weights, state):
        def step(carry, progress):
            weights, state, momentum = carry
            slope = jax.grad(loss, has_aux=True)(weights, state, progress)[0]
            state = loss(weights, state, progress)[1]
            momentum = 0.9 * momentum + slope
            return (weights - 0.2 * momentum, state, momentum), None

        start = (weights, state, jnp.zeros_like(weights))
        return jax.lax.scan(step, start, jnp.linspace(0, 1, 300))[0][0]

    weights = descend(jnp.zeros((4, 2)), objective.initial_state())
    predicted = np.argmax(features @ weights[:3] + weights[3], axis=-1)
    assert f1_score(labels, predicted) > 0.8


def test_hyper_parameters_are_traced_and_choices_are_not():
    leaves, structure = jax.tree.flatten(SelfAdjustingDice(alpha=0.2, smooth=3.0))
    assert leaves == [0.2, 3.0]
    assert structure == jax.tree.structure(SelfAdjustingDice())
    assert structure != jax.tree.structure(SelfAdjustingDice(over="token"))
    assert jax.tree.leaves(WeightedSum()) == [0.0, 1.0, 1.0, 1.0]
    assert jax.tree.leaves(LDAM(class_counts=(3.0, 1.0))) == [0.5, 1.0, 3.0, 1.0]


def test_one_program_serves_a_sweep_of_alpha():
    alphas = np.array([0.0, 0.1, 1.0], np.float32)
    swept = jax.vmap(lambda a: SelfAdjustingDice(alpha=a).loss(LOGITS, LABELS))(alphas)
    single = [value(SelfAdjustingDice(alpha=float(a))) for a in alphas]
    np.testing.assert_allclose(swept, single, rtol=1e-5)


@pytest.mark.parametrize(
    ("progress", "share"), [(0.0, 0.0), (0.2, 0.0), (0.3, 0.25), (0.6, 1.0), (1.0, 1.0)]
)
def test_a_linear_schedule_mixes_the_losses(progress, share):
    early, late = value(CrossEntropy()), value(Dice())
    got = value(LinearSchedule(), progress=progress)
    assert got == pytest.approx((1 - share) * early + share * late, rel=1e-5)


def test_a_step_schedule_changes_at_once():
    schedule = StepSchedule(first=Dice(), then=CrossEntropy(), at=0.5)
    got = [value(schedule, progress=one) for one in (0.0, 0.49, 0.5, 1.0)]
    np.testing.assert_allclose(
        got, [value(Dice())] * 2 + [value(CrossEntropy())] * 2, rtol=1e-6
    )


def test_state_goes_from_call_to_call_through_sums_and_schedules():
    density = oracle_density.Density(np.zeros(10), 0)
    objective = WeightedSum(
        parts=(StepSchedule(first=GHM(), then=CrossEntropy(), at=0.9), Dice()),
        weights=(1.0, 0.0),
    )
    state = objective.initial_state()
    for scale in (1.0, 2.0, 0.1):
        values, density = oracle_density.ghm(scale * LOGITS, LABELS, density)
        got, state = objective(
            {"tags": scale * LOGITS}, {"tags": LABELS}, state, progress=0.1
        )
        assert float(got) == pytest.approx(float(mean(values)), rel=1e-5)
    assert float(jax.tree.leaves(state)[-1]) == 3.0


def test_counts_of_the_training_data_are_filled_in_once_at_least_1():
    fitted = LinearSchedule(
        first=LogitAdjusted(), then=LDAM(class_counts=(1.0, 2.0))
    ).fitted({"tags": np.array([5, 0])})
    assert fitted.first.class_counts == (5.0, 1.0)
    assert fitted.then.class_counts == (1.0, 2.0)
    assert CrossEntropy().fitted({}) == CrossEntropy()


def test_an_objective_without_its_counts_says_so():
    with pytest.raises(ValueError, match="class_counts is empty: call `fitted`"):
        LogitAdjusted()({"tags": LOGITS}, {"tags": LABELS})


def test_a_sum_wants_a_weight_for_each_part():
    with pytest.raises(ValueError, match="weights has 1 numbers for 2 parts"):
        WeightedSum(weights=(1.0,))


def test_short_names_differ_and_documentation_names_every_field():
    classes = by_short_name().values()
    assert len({cls.short_name for cls in classes}) == len(classes) == 28
    assert {cls.__name__ for cls in classes} < set(objectives.__all__)
    for cls in classes:
        for field in dataclasses.fields(cls):
            assert f"\n  {field.name}: " in inspect.getdoc(cls), (cls, field.name)
