"""Objectives: each kind of reduction against NumPy, and their fields."""

from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.metrics import f1_score

from dicejax.losses.declaration import Scheme
from dicejax.objectives import (
    GHM,
    LDAM,
    ZLPR,
    Asymmetric,
    CrossEntropy,
    Dice,
    DistributionBalanced,
    Focal,
    HardNegatives,
    LinearSchedule,
    LogitAdjusted,
    MajorityOrMinority,
    Objective,
    SelfAdjustingDice,
    SigmoidF1,
    SoftF1,
    StepSchedule,
    UnifiedFocal,
    WeightedCrossEntropy,
    WeightedSum,
    by_short_name,
    objective,
)

from .kinds import NAMES
from .losses import oracle, oracle_density, oracle_pointwise, oracle_sets

RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=(3, 4, 5)).astype(np.float32)
LABELS = RNG.integers(0, 5, (3, 4))
LABELS[0, 2:] = -100
SEEN = LABELS != -100
ONE_HOT = np.where(SEEN[..., None], LABELS[..., None] == np.arange(5), -100)
COUNTS = np.array([60, 20, 10, 6, 4])
BATCH = (LOGITS, LABELS)


def mean(values):
    return values.sum() / SEEN.sum()


def hardest_two(each, negative, positive):
    return np.append(each[positive], np.sort(each[negative])[::-1][:2]).mean()


def wanted_of_classes():
    """Return objectives, and their values for labels that name a class."""
    of_elements, counts = oracle_pointwise, {"class_counts": COUNTS}
    both = {"class_counts": np.stack([100 - COUNTS, COUNTS], axis=-1)}
    entropies = of_elements.cross_entropy(*BATCH)
    nothing = oracle_density.Density(np.zeros(10), 0)
    smoothed = {"scheme": "inverse", "label_smoothing": 0.2}
    return [
        (CrossEntropy(), mean(entropies)),
        (
            WeightedCrossEntropy(**smoothed),
            mean(of_elements.weighted_cross_entropy(*BATCH, **counts, **smoothed)),
        ),
        (
            Focal(scheme="log_ratio"),
            mean(of_elements.focal(*BATCH, **counts, scheme="log_ratio")),
        ),
        (LDAM(), mean(of_elements.ldam(*BATCH, **counts))),
        # Multi-label losses: the mean over entries, or over elements.
        (Asymmetric(), mean(of_elements.asymmetric(LOGITS, ONE_HOT)) / 5),
        (
            DistributionBalanced(),
            mean(of_elements.distribution_balanced(LOGITS, ONE_HOT, **both)) / 5,
        ),
        (ZLPR(), mean(of_elements.zlpr(LOGITS, ONE_HOT))),
        (
            HardNegatives(negatives_per_positive=0.0, minimum=2.0),
            hardest_two(entropies, LABELS == 0, SEEN & (LABELS != 0)),
        ),
        (GHM(), mean(oracle_density.ghm(*BATCH, nothing)[0])),
        (Dice(smooth=0.5), oracle.dice(*BATCH, smooth=0.5).mean()),
        (
            SelfAdjustingDice(alpha=0.3),
            oracle.dice(*BATCH, alpha=0.3, squared=True).mean(),
        ),
        (
            SelfAdjustingDice(alpha=1.0, over="element"),
            mean(oracle.dice(*BATCH, axis=(), alpha=1.0, squared=True)) / 5,
        ),
        (SigmoidF1(), oracle_sets.sigmoid_f1(LOGITS, ONE_HOT)),
        (UnifiedFocal(gamma=0.2), oracle_sets.unified_focal(*BATCH, gamma=0.2)),
        (
            WeightedSum(weights=(0.5, 2.0)),
            mean(entropies) / 2 + 2 * oracle.dice(*BATCH).mean(),
        ),
    ]


def multi_label_batch(classes):
    """Return logits, labels of 0 and 1, and counts of both: three sentences of four."""
    rng = np.random.default_rng(classes)
    logits = rng.normal(size=(3, 4, classes)).astype(np.float32)
    labels = (rng.random(logits.shape) < 0.4).astype(int)
    labels[0, 2:] = -100  # a token, or a class of a token
    labels[1, 1, 0] = -100
    of_1 = rng.integers(5, 30, classes)
    return logits, labels, np.stack([100 - of_1, of_1], axis=-1)


def wanted_of_multi_label(classes):
    """Return objectives, and their values for `multi_label_batch(classes)`."""
    logits, labels, counts = multi_label_batch(classes)
    seen, each = labels != -100, {"multi_label": True}
    pairs, of_elements = (logits, labels), oracle_pointwise

    def mean(values):
        return values.sum() / seen.sum()

    def by_class(loss, **of_classes):
        """Return the binary form of a loss for each class."""
        values = []
        for c in range(classes):
            settings = {name: array[c] for name, array in of_classes.items()}
            batch = logits[..., c], labels[..., c]
            values.append(loss(*batch, class_axis=None, **settings))
        return np.stack(values, axis=-1)

    nothing = oracle_density.Density(np.zeros(10), 0)
    entropies = of_elements.cross_entropy(*pairs, **each)
    adjusted = of_elements.logit_adjusted(*pairs, class_counts=counts, **each)
    balanced = of_elements.distribution_balanced(*pairs, class_counts=counts)
    element = oracle.dice(*pairs, **each, axis=(), alpha=0.3, squared=False)
    return [
        (CrossEntropy(), mean(entropies)),
        (LogitAdjusted(), mean(adjusted)),
        (DistributionBalanced(), mean(balanced)),
        (ZLPR(), of_elements.zlpr(*pairs).sum() / seen.any(-1).sum()),
        # Losses with a binary form only.
        (MajorityOrMinority(), mean(by_class(of_elements.majority_or_minority))),
        (LDAM(), mean(by_class(of_elements.ldam, class_counts=counts))),
        (UnifiedFocal(), by_class(oracle_sets.unified_focal).mean()),
        (
            HardNegatives(negatives_per_positive=0.0, minimum=2.0),
            hardest_two(entropies, labels == 0, labels == 1),
        ),
        (GHM(), mean(oracle_density.ghm(*pairs, nothing, **each)[0])),
        (Dice(squared=True), oracle.dice(*pairs, squared=True, **each).mean()),
        (SelfAdjustingDice(alpha=0.3, over="element", squared=False), mean(element)),
        (SigmoidF1(), oracle_sets.sigmoid_f1(*pairs)),
    ]


def value(objective, **keywords):
    outputs, targets = {"tags": LOGITS, "other": LOGITS * 0}, {"tags": LABELS}
    objective = objective.bind_outputs(["tags"]).with_class_counts({"tags": COUNTS})
    return float(objective(outputs, targets, **keywords)[0])


@pytest.mark.parametrize(
    ("objective", "wanted"), wanted_of_classes(), ids=lambda one: str(one)[:60]
)
def test_value_against_numpy(objective, wanted):
    assert value(objective) == pytest.approx(float(wanted), rel=1e-5)


@pytest.mark.parametrize("classes", [1, 3])
def test_value_of_several_labels_against_numpy(classes):
    logits, labels, counts = multi_label_batch(classes)
    objectives, wanted = zip(*wanted_of_multi_label(classes), strict=True)

    @jax.jit
    def values(logits, labels):
        fitted = [one.with_class_counts({"has": counts}) for one in objectives]
        return [one({"has": logits}, {"has": labels})[0] for one in fitted]

    got = values(logits, labels)
    for one, value, of_numpy in zip(objectives, got, wanted, strict=True):
        assert float(value) == pytest.approx(float(of_numpy), rel=1e-5), one


@pytest.mark.parametrize("classes", [1, 3])
@pytest.mark.parametrize("name", NAMES)
def test_masked_entries_change_nothing(name, classes):
    logits, labels, counts = multi_label_batch(classes)
    objective = by_short_name()[name]().with_class_counts({"has": counts})

    def loss(logits, labels):
        return objective({"has": logits}, {"has": labels}, progress=0.5)[0]

    both = jax.jit(jax.value_and_grad(loss))
    result, gradient = both(logits, labels)
    assert np.isfinite(gradient).all()
    assert not gradient[labels == -100].any()
    assert gradient[labels != -100].any(axis=0).all()
    again = both(np.where(labels == -100, np.nan, logits), labels)
    np.testing.assert_allclose(again[0], result, rtol=1e-6)
    np.testing.assert_allclose(again[1], gradient, rtol=1e-6)
    result, gradient = both(logits, np.full_like(labels, -100))
    assert float(result) == 0.0
    assert not gradient.any()


@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_finite_where_nothing_is_labelled(name):
    objective = by_short_name()[name]().with_class_counts({"tags": COUNTS})
    nothing = {"tags": jnp.full_like(LABELS, -100)}

    def loss(logits):
        return objective({"tags": logits}, nothing)[0]

    result, gradient = jax.jit(jax.value_and_grad(loss))(LOGITS)
    assert float(result) == 0.0
    assert not gradient.any()


@pytest.mark.parametrize("form", ["softmax", "sigmoid"])
@pytest.mark.parametrize("name", NAMES)
def test_descending_it_learns_a_rare_class(name, form):
    # 8 of 200 tokens have label 1; noisy features predict the label.
    rng = np.random.default_rng(1)
    labels = (np.arange(200) < 8).astype(int)
    features = (rng.normal(size=(200, 3)) + 3 * labels[:, None]).astype(np.float32)
    counts = np.bincount(labels)
    targets, columns, rate = labels, 2, 0.2
    if form == "sigmoid":  # one logit moves half as far as the difference of two
        targets, counts, columns, rate = labels[:, None], counts[None], 1, 0.4
    objective = by_short_name()[name]().with_class_counts({"tags": counts})

    def loss(weights, state, progress):
        logits = features @ weights[:3] + weights[3]
        return objective({"tags": logits}, {"tags": targets}, state, progress)

    @jax.jit
    def descend(weights, state):
        def step(carry, progress):
            weights, state, momentum = carry
            slope = jax.grad(loss, has_aux=True)(weights, state, progress)[0]
            state = loss(weights, state, progress)[1]
            momentum = 0.9 * momentum + slope
            return (weights - rate * momentum, state, momentum), None

        start = (weights, state, jnp.zeros_like(weights))
        return jax.lax.scan(step, start, jnp.linspace(0, 1, 300))[0][0]

    weights = descend(jnp.zeros((4, columns)), objective.initial_state())
    logits = features @ weights[:3] + weights[3]
    predicted = logits[:, 0] > 0 if form == "sigmoid" else np.argmax(logits, axis=-1)
    score = f1_score(labels, predicted)
    # Equation 11 as printed finds no positive here, as documentation says it may.
    assert score == 0 if name == "dsc-eq11" else score > 0.8


def test_hyper_parameters_are_traced_and_choices_are_not():
    leaves, structure = jax.tree.flatten(SelfAdjustingDice(alpha=0.2, smooth=3.0))
    assert leaves == [0.2, 3.0]
    assert structure == jax.tree.structure(SelfAdjustingDice())
    assert structure != jax.tree.structure(SelfAdjustingDice(over="element"))
    assert jax.tree.leaves(WeightedSum()) == [0.0, 1.0, 1.0, 1.0]
    assert jax.tree.leaves(LDAM(class_counts=(3.0, 1.0))) == [0.5, 1.0, 3.0, 1.0]


def test_floats_that_may_be_none_are_traced_and_need_no_new_program():
    @objective
    class Sometimes(Objective):
        more: float | None = None
        steps: int | None = None

    compiled = []

    @jax.jit
    def run(one):
        compiled.append(one)
        return 0.0 if one.more is None else one.more

    for more in (1.0, 2.0, 3.0):
        assert float(run(Sometimes(more=more, steps=3))) == more
    run(Sometimes(steps=3))
    assert len(compiled) == 2
    assert jax.tree.leaves(Sometimes(more=1.0, steps=3)) == [1.0]


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
    ).with_class_counts({"tags": np.array([5, 0])})
    assert fitted.first.class_counts == (5.0, 1.0)
    assert fitted.then.class_counts == (1.0, 2.0)
    assert CrossEntropy().with_class_counts({}) == CrossEntropy()
    assert Focal().with_class_counts({}) == Focal()
    assert LDAM().with_class_counts({"has": np.array([[9, 1], [10, 0]])}) == LDAM(
        class_counts=(9.0, 1.0, 10.0, 1.0)
    )


def multi_label_loss(objective, classes):
    logits, labels, _ = multi_label_batch(classes)
    return objective.loss(logits, labels)


THREE = LogitAdjusted(class_counts=(1.0, 2.0, 3.0))
POSITIONS = WeightedCrossEntropy().bind_outputs(["start", "has"])


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (
            lambda: LogitAdjusted()({"tags": LOGITS}, {"tags": LABELS}),
            "class_counts is empty: call `with_class_counts`",
        ),
        (
            lambda: POSITIONS.with_class_counts({"has": np.array([[9, 1]])}),
            "objective wce needs class counts, which output 'start' has none of:"
            " its labels are positions",
        ),
        (
            lambda: WeightedCrossEntropy().with_class_counts({}),
            "objective wce names no output",
        ),
        (
            lambda: multi_label_loss(THREE, 3),
            "class_counts has 3 numbers but 3 classes in the multi-label form want 6",
        ),
        (
            lambda: THREE.loss(LOGITS, LABELS),
            "class_counts has 3 numbers but 5 classes",
        ),
        (
            lambda: multi_label_loss(UnifiedFocal(background=2), 1),
            "background is 2 but there are 2 classes",
        ),
        (
            lambda: multi_label_loss(SoftF1(exclude_class=0), 1),
            "exclude_class is 0 but there are 1 classes",
        ),
        (lambda: WeightedSum(weights=(1.0,)), "weights has 1 numbers for 2 parts"),
    ],
)
def test_what_does_not_fit_is_refused(attempt, message):
    with pytest.raises(ValueError, match=message):
        attempt()


@pytest.mark.parametrize("scheme", get_args(Scheme))
def test_every_scheme_of_weights_runs_in_a_compiled_step(scheme):
    logits, labels = jnp.zeros((4, 3)), jnp.array([0, 1, 2, 0])
    counts = {"tags": np.array([2, 1, 1])}
    one = WeightedCrossEntropy(scheme=scheme, output="tags").with_class_counts(counts)

    def loss(one):
        return one({"tags": logits}, {"tags": labels}, one.initial_state())[0]

    np.testing.assert_allclose(jax.jit(loss)(one), loss(one), rtol=1e-6)
