"""What each objective gives for a batch, in NumPy, in both forms of labels."""

import numpy as np

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
    LogCoshDice,
    LogitAdjusted,
    LovaszSoftmax,
    MajorityOrMinority,
    Poly,
    SelfAdjustingDice,
    SigmoidF1,
    SoftF1,
    Tversky,
    UnifiedFocal,
    VectorScaling,
    WeightedCrossEntropy,
    WeightedSum,
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


def to_multi_label(classes):
    """Logits, labels of 0 and 1, and counts of both, of three sentences of four."""
    rng = np.random.default_rng(classes)
    logits = rng.normal(size=(3, 4, classes)).astype(np.float32)
    labels = (rng.random(logits.shape) < 0.4).astype(int)
    labels[0, 2:] = -100  # a token by itself, or a class of a token
    labels[1, 1, 0] = -100
    of_1 = rng.integers(5, 30, classes)
    return logits, labels, np.stack([100 - of_1, of_1], axis=-1)


def _yes_or_no_in_float64(logits, labels, counts):
    """The paper's losses from their formulas, over the entries that are labelled."""
    z, seen, y = logits.astype(np.float64), labels != -100, labels == 1
    p = 1 / (1 + np.exp(-z))
    of_label = np.where(y, p, 1 - p)
    ratio = np.log10(counts.sum(-1, keepdims=True) / counts)  # K is 1
    weights = np.where(y, ratio[:, 1], ratio[:, 0])

    def mean(values):
        return values[seen].mean()

    def over_batch(values):
        return np.where(seen, values, 0).sum((0, 1))

    overlap, predicted, actual = over_batch(p * y), over_batch(p), over_batch(y)
    f = (1 - p) ** 0.3 * p
    dsc = 1 - (2 * over_batch(f * y) + 1) / (over_batch(f**2) + actual + 1)
    wrong = 0.2 * (predicted - overlap) + 0.8 * (actual - overlap)
    squares = over_batch(p**2) + actual
    return [
        (CrossEntropy(), mean(-np.log(of_label))),
        (
            CrossEntropy(label_smoothing=0.2),
            mean(-0.9 * np.log(of_label) - 0.1 * np.log(1 - of_label)),
        ),
        (WeightedCrossEntropy(), mean(-weights * np.log(of_label))),
        (Focal(gamma=3.0), mean(-((1 - of_label) ** 3) * np.log(of_label))),
        (
            Focal(scheme="log_ratio"),
            mean(-weights * (1 - of_label) ** 2 * np.log(of_label)),
        ),
        (
            Dice(smooth=0.5),
            (1 - (2 * overlap + 0.5) / (predicted + actual + 0.5)).mean(),
        ),
        (Dice(squared=True), (1 - (2 * overlap + 1) / (squares + 1)).mean()),
        (SelfAdjustingDice(alpha=0.3), dsc.mean()),
        (
            SelfAdjustingDice(alpha=0.3, over="token"),
            mean(1 - (2 * f * y + 1) / (f + y + 1)),
        ),
        (
            Tversky(alpha=0.2, beta=0.8),
            (1 - (overlap + 1) / (overlap + wrong + 1)).mean(),
        ),
        (
            WeightedSum(weights=(0.5, 2.0)),
            mean(-np.log(of_label)) / 2
            + 2 * (1 - (2 * overlap + 1) / (predicted + actual + 1)).mean(),
        ),
    ]


def _hard_negatives(logits, labels):
    each = oracle_pointwise.cross_entropy(logits, labels, multi_label=True)
    worst = np.sort(each[labels == 0])[::-1][:2]
    return np.append(each[labels == 1], worst).mean()


def yes_or_no_wanted(classes):
    """Objectives and what they give for `to_multi_label(classes)`."""
    logits, labels, counts = batch = to_multi_label(classes)
    seen, each, binary = labels != -100, {"multi_label": True}, {"class_axis": None}
    pairs = logits, labels

    def mean(values):
        return values.sum() / seen.sum()

    def by_class(loss, **of_classes):
        """A loss of one yes or no, of each class by itself."""
        of_each = [
            loss(
                logits[..., c],
                labels[..., c],
                **binary,
                **{name: one[c] for name, one in of_classes.items()},
            )
            for c in range(classes)
        ]
        return np.stack(of_each, axis=-1)

    nothing = oracle_density.Density(np.zeros(10), 0)
    majority = oracle_pointwise.majority_or_minority(*pairs, weight=0.3, **binary)
    adjusted = oracle_pointwise.logit_adjusted(*pairs, class_counts=counts, **each)
    balanced = oracle_pointwise.distribution_balanced(
        *pairs, positives=counts[:, 1], total=100
    )
    ranked = oracle_pointwise.zlpr(*pairs).sum() / seen.any(-1).sum()
    return [
        *_yes_or_no_in_float64(*batch),
        (Poly(epsilon=2.0), mean(oracle_pointwise.poly(*pairs, epsilon=2.0, **each))),
        (MajorityOrMinority(weight=0.3), mean(majority)),
        (LogitAdjusted(), mean(adjusted)),
        (LDAM(), mean(by_class(oracle_pointwise.ldam, class_counts=counts))),
        (VectorScaling(), mean(by_class(oracle_pointwise.vs, class_counts=counts))),
        (Asymmetric(), mean(oracle_pointwise.asymmetric(*pairs))),
        (ZLPR(), ranked),
        (DistributionBalanced(), mean(balanced)),
        (
            HardNegatives(negatives_per_positive=0.0, minimum=2.0),
            _hard_negatives(*pairs),
        ),
        (GHM(), mean(oracle_density.ghm(*pairs, nothing, **each)[0])),
        (LogCoshDice(), oracle.log_cosh_dice(*pairs, **each).mean()),
        (GeneralizedDice(), oracle_sets.generalized_dice(*pairs, **each)),
        (DiceSemimetric(variant="dml2"), oracle.dice(*pairs, **each).mean()),
        (FocalTversky(), oracle_sets.focal_tversky(*pairs, **each).mean()),
        (Jaccard(smooth=2.0), oracle_sets.jaccard(*pairs, smooth=2.0, **each).mean()),
        (SoftF1(), oracle_sets.soft_f1(*pairs, smooth=1.0, **each)),
        (SigmoidF1(), oracle_sets.sigmoid_f1(*pairs, smooth=1.0)),
        (UnifiedFocal(), by_class(oracle_sets.unified_focal).mean()),
        (LovaszSoftmax(), oracle_sets.lovasz_softmax(*pairs, **each).mean()),
    ]
