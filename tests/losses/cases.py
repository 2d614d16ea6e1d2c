"""Every loss in every form, with its oracle and inputs."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dicejax import losses

from . import oracle, oracle_metrics, oracle_pointwise, oracle_sets

CLASSES = 3
SOFTMAX, BINARY, MULTI_LABEL = FORMS = ("softmax", "binary", "multi_label")
KINDS = (
    "random",
    "extreme",
    "tied",
    "all_masked",
    "empty",
    "absent_class",
    "single_class",
    "soft",
)
PER_CLASS = ("class_weights", "class_counts")


@dataclasses.dataclass(frozen=True)
class Case:
    """A public loss with settings, and its oracle, which takes the same ones.

    The name is unique; where not `takes_soft`, labels must be integers.
    """

    name: str
    function: Callable
    reference: Callable
    settings: dict[str, Any]
    form: str
    is_set: bool
    takes_soft: bool

    @property
    def loss(self) -> Callable:
        return functools.partial(self.function, **self.settings)

    @property
    def oracle(self) -> Callable:
        return functools.partial(self.reference, **self.settings)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of input that the loss is defined for."""
        without = set() if self.takes_soft else {"soft"}
        of_several = {"exclude_class", "background", "majority_class"}
        if self.form == BINARY or of_several & self.settings.keys():
            without.add("single_class")
        return tuple(kind for kind in KINDS if kind not in without)

    def of_first_classes(self, count: int) -> "Case":
        """The case for logits of fewer classes: arrays of settings cut to fit."""
        if self.form == BINARY:
            return self
        settings = {
            name: value[:count] if name in PER_CLASS else value
            for name, value in self.settings.items()
        }
        return dataclasses.replace(self, settings=settings)


class Inputs(NamedTuple):
    """Arguments of a loss: float32, int32 (or soft: float32) and bool."""

    logits: np.ndarray
    labels: np.ndarray
    where: np.ndarray


def draw(
    form: str,
    kind: str = "random",
    seed: int = 0,
    shape: tuple[int, ...] = (3, 4),
    classes: int = CLASSES,
) -> Inputs:
    """Draw inputs of one of `KINDS`; a single class needs `of_first_classes(1)`."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    shape = (0, *shape[1:]) if kind == "empty" else shape
    classes = 1 if kind == "single_class" else classes
    wide = shape if form == BINARY else (*shape, classes)
    logits, where = 3 * rng.normal(size=wide), rng.random(shape) < 0.75
    if kind == "extreme":
        logits = np.sign(logits) * 10 ** rng.uniform(-1, 4, wide)
    if kind == "tied":
        logits = rng.choice([-3.0, 0.0, 3.0], wide)
    labels = _hard_labels(rng, form, kind, shape, classes)
    if kind == "soft":
        labels = _soft_labels(rng, form, wide)
    if kind == "all_masked":
        where = np.zeros(shape, bool)
        logits[:, 0], logits[:, 1] = np.nan, np.inf
    return Inputs(logits.astype(np.float32), labels, where)


def _hard_labels(rng, form, kind, shape, classes):
    top = classes if form == SOFTMAX else 2
    labels = rng.integers(0, top, (*shape, classes) if form == MULTI_LABEL else shape)
    if kind == "absent_class":
        if form == SOFTMAX:
            labels = np.minimum(labels, classes - 2)
        elif form == BINARY:
            labels = np.zeros_like(labels)
        else:
            labels[..., -1] = 0
    masked = rng.random(labels.shape) < 0.1
    return np.where(masked, -100, labels).astype(np.int32)


def _soft_labels(rng, form, wide):
    if form == SOFTMAX:
        return rng.dirichlet(np.ones(wide[-1]), wide[:-1]).astype(np.float32)
    labels = np.clip(rng.uniform(-0.2, 1.2, wide), 0, 1)  # some are 0 or 1
    return labels.astype(np.float32)


WEIGHTS = {
    SOFTMAX: np.array([0.5, 3.0, 1.0]),
    BINARY: np.array([0.25, 2.0]),
    MULTI_LABEL: np.array([[0.5, 3.0], [1.0, 2.0], [0.25, 0.0]]),
}
COUNTS = {
    SOFTMAX: np.array([50.0, 8.0, 1.0]),
    BINARY: np.array([90.0, 10.0]),
    MULTI_LABEL: np.array([[40.0, 10.0], [45.0, 5.0], [20.0, 30.0]]),
}
ALL, EXCLUSIVE, SIGMOIDS = FORMS, (SOFTMAX, BINARY), (BINARY, MULTI_LABEL)


LAYOUTS = {
    SOFTMAX: {},
    BINARY: {"class_axis": None},
    MULTI_LABEL: {"multi_label": True},
}


def layout(name, form):
    """Return the keywords of a form, which some losses have already."""
    implied = form == MULTI_LABEL and name in ALWAYS_MULTI_LABEL
    return {} if implied else LAYOUTS[form]


def of_form(settings, form):
    """Return settings with the values that differ by form for this form."""
    return {
        name: value[form] if isinstance(value, dict) else value
        for name, value in settings.items()
    }


def _cases(module, is_set, table):
    for name, forms, settings in table:
        for form in forms:
            chosen = of_form(settings, form)
            labels = (
                key if key in PER_CLASS else f"{key}={value}".replace(" ", "")
                for key, value in chosen.items()
            )
            is_gold = form == SOFTMAX and chosen.get("form") == "gold"
            yield Case(
                name="-".join([form, name, *labels]),
                function=getattr(losses, name),
                reference=getattr(module, name),
                settings=chosen | layout(name, form),
                form=form,
                is_set=is_set,
                takes_soft=name not in INTEGERS_ONLY and not is_gold,
            )


INTEGERS_ONLY = (
    "majority_or_minority",
    "ldam",
    "vs",
    "distribution_balanced",
    "class_balanced",
    "unified_focal",
    "lovasz_softmax",
    "lovasz_hinge",
    "pairwise_auc",
    "average_precision",
)
ALWAYS_MULTI_LABEL = (
    "asymmetric",
    "zlpr",
    "distribution_balanced",
    "class_balanced",
    "sigmoid_f1",
    "lovasz_hinge",
)

COUNTED, WEIGHED = {"class_counts": COUNTS}, {"class_weights": WEIGHTS}
BALANCED = {"alpha": 0.3, "beta": 4.0, "mu": 0.5, "kappa": 0.4, "scale": 5.0}
INVERSE = {"scheme": "inverse", "label_smoothing": 0.2}
POINTWISE = [
    ("cross_entropy", ALL, {}),
    ("cross_entropy", ALL, {"label_smoothing": 0.2} | WEIGHED),
    ("weighted_cross_entropy", ALL, COUNTED),
    ("weighted_cross_entropy", ALL, COUNTED | INVERSE),
    ("poly", ALL, {}),
    ("poly", [SOFTMAX], {"epsilon": -0.75}),
    ("brier", ALL, {}),
    ("poly_focal", ALL, {}),
    ("poly_focal", [SOFTMAX], {"gamma": 0.5, "epsilon": -0.75}),
    ("majority_or_minority", EXCLUSIVE, {}),
    ("majority_or_minority", EXCLUSIVE, {"majority_class": 1, "weight": 0.2}),
    ("focal", ALL, {}),
    ("focal", ALL, {"gamma": 0.5} | WEIGHED),
    ("focal", [SOFTMAX], {"gamma": 0.0}),
    ("focal", ALL, COUNTED | {"scheme": "log_ratio", "k": 2.0}),
    ("logit_adjusted", ALL, COUNTED),
    ("logit_adjusted", ALL, COUNTED | {"tau": 0.3}),
    ("ldam", EXCLUSIVE, COUNTED),
    ("ldam", EXCLUSIVE, COUNTED | {"max_margin": 1.5, "scale": 4.0} | WEIGHED),
    ("vs", EXCLUSIVE, COUNTED),
    ("vs", EXCLUSIVE, COUNTED | {"tau": 0.4, "gamma": 0.6} | WEIGHED),
    ("asymmetric", SIGMOIDS, {}),
    ("asymmetric", SIGMOIDS, {"gamma_positive": 0.0, "gamma_negative": 0.5}),
    ("asymmetric", [MULTI_LABEL], {"gamma_negative": 1.5, "margin": 0.0}),
    ("asymmetric", [MULTI_LABEL], {"gamma_negative": 0.0, "margin": 0.4}),
    ("zlpr", [MULTI_LABEL], {}),
    ("distribution_balanced", [MULTI_LABEL], COUNTED),
    ("distribution_balanced", [MULTI_LABEL], COUNTED | BALANCED),
    ("distribution_balanced", [MULTI_LABEL], COUNTED | BALANCED | {"gamma": 1.5}),
    ("class_balanced", [MULTI_LABEL], COUNTED),
    ("class_balanced", [MULTI_LABEL], COUNTED | {"beta": 0.9, "gamma": 1.5}),
]

DSC = "self_adjusting_dice"
STOPPED = {"alpha": 0.7, "stop_gradient_weight": True}
AS_WRITTEN = {"axis": (), "form": "gold", "squared": False}
GOLD = [
    (DSC, ALL, AS_WRITTEN),
    (DSC, [SOFTMAX], AS_WRITTEN | {"alpha": 1.5, "smooth": 0.0}),
    (DSC, [SOFTMAX], AS_WRITTEN | {"squared": True}),
    (DSC, ALL, AS_WRITTEN | STOPPED),
]

REST = {"axis": (), "squared": False}
SQUARED, SKIP = {"squared": True}, {"absent": "skip"}
DICE = [
    (DSC, ALL, REST),
    (DSC, ALL, REST | {"axis": None, "alpha": 0.5}),
    (DSC, ALL, REST | {"axis": -1, "alpha": 0.0, "squared": True}),
    (DSC, ALL, REST | {"axis": 0, "alpha": 2.0, "squared": True, "smooth": 0.0}),
    (DSC, ALL, REST | {"axis": None} | STOPPED),
    ("dice", ALL, {}),
    ("dice", ALL, {"axis": -1, "smooth": 0.0} | SQUARED | SKIP),
    ("dice", [SOFTMAX], {"axis": ()}),
    ("log_cosh_dice", ALL, {}),
    ("log_cosh_dice", ALL, {"axis": 0, "smooth": 0.1} | SQUARED | SKIP),
    ("log_dice", ALL, {}),
    ("log_dice", ALL, {"axis": 0, "smooth": 0.1} | SQUARED | SKIP),
]

OTHER = {"gamma": 0.2, "background": 1}
LEAST = {"intersection": "minimum"}
EVEN = {"variant": "symmetric", "smooth": 0.5}
SETS = [
    ("generalized_dice", ALL, {}),
    ("generalized_dice", ALL, {"weighting": "simple", "absent": "smooth"}),
    ("generalized_dice", ALL, {"axis": -1, "weighting": "uniform", "smooth": 0.5}),
    ("generalized_dice", ALL, {"axis": 0, "absent": "smooth", "smooth": 1.0}),
    ("dice_semimetric", ALL, {"variant": "dml1"}),
    ("dice_semimetric", ALL, {"variant": "dml2"}),
    ("dice_semimetric", ALL, {"variant": "dml1", "axis": -1, "absent": "skip"}),
    ("dice_semimetric", ALL, {"variant": "dml2", "axis": 0, "smooth": 0.0}),
    ("tversky", ALL, {}),
    ("tversky", ALL, {"alpha": 0.2, "beta": 0.8, "axis": -1, "absent": "skip"}),
    ("tversky", [SOFTMAX], {"alpha": 1.5, "beta": 0.5, "smooth": 0.0}),
    ("tversky", ALL, {"alpha": 0.3, "beta": 0.6} | LEAST),
    ("focal_tversky", ALL, {}),
    ("focal_tversky", ALL, {"alpha": 0.7, "beta": 0.3, "gamma": 2.0, "axis": 0} | SKIP),
    ("jaccard", ALL, {}),
    ("jaccard", ALL, {"axis": -1, "smooth": 0.0, "absent": "skip"}),
    ("jaccard", ALL, {"axis": 0, "smooth": 0.1} | LEAST),
    ("jaccard", ALL, {"axis": -1} | SQUARED | SKIP),
    ("soft_f1", ALL, {}),
    ("soft_f1", ALL, {"average": "none"}),
    ("soft_f1", ALL, {"beta": 2.0, "average": "macro", "smooth": 0.5}),
    ("soft_f1", ALL, {"average": "macro", "axis": -1, "absent": "skip"}),
    ("soft_f1", ALL, {"beta": 0.5, "average": "micro", "axis": 0, "absent": "skip"}),
    ("soft_f1", ALL, {"average": "micro", "smooth": 1.0}),
    ("soft_f1", [SOFTMAX, MULTI_LABEL], {"average": "macro", "exclude_class": 0}),
    ("soft_f1", [SOFTMAX, MULTI_LABEL], {"average": "micro", "exclude_class": 1}),
    ("soft_f1", [SOFTMAX], {"average": "none", "exclude_class": 2}),
    ("sigmoid_f1", SIGMOIDS, {}),
    ("sigmoid_f1", SIGMOIDS, {"average": "none", "axis": -1}),
    ("sigmoid_f1", SIGMOIDS, {"slope": 3.0, "offset": -0.5, "axis": 0, "smooth": 0.1}),
    ("sigmoid_f1", [MULTI_LABEL], {"average": "micro", "absent": "skip"}),
    ("unified_focal", EXCLUSIVE, {}),
    ("unified_focal", EXCLUSIVE, {"variant": "symmetric"}),
    ("unified_focal", EXCLUSIVE, {"axis": -1, "weight": 0.3, "delta": 0.7} | OTHER),
    ("unified_focal", EXCLUSIVE, {"axis": 0, "weight": 0.8, "gamma": 0.75} | EVEN),
    ("unified_focal", [SOFTMAX], {"absent": "skip"}),
    ("lovasz_softmax", ALL, {}),
    ("lovasz_softmax", ALL, {"axis": -1, "absent": "smooth"}),
    ("lovasz_hinge", SIGMOIDS, {}),
    ("lovasz_hinge", SIGMOIDS, {"axis": -1, "absent": "skip"}),
]

ODDS = {"scores": "log_odds", "margin": 0.7}
LOGISTIC = {"surrogate": "logistic", "scores": "log_odds"}
PARTIAL = {"max_fpr": 0.37}
METRICS = [
    ("pairwise_auc", ALL, {}),
    ("pairwise_auc", ALL, LOGISTIC),
    ("pairwise_auc", ALL, {"axis": -1, **ODDS}),
    ("pairwise_auc", ALL, {"axis": 0, "surrogate": "logistic", "scale": 3.0}),
    ("pairwise_auc", ALL, {"surrogate": "squared"}),
    ("pairwise_auc", ALL, {"surrogate": "hinge"}),
    ("pairwise_auc", ALL, {"surrogate": "barrier_hinge"}),
    ("pairwise_auc", ALL, PARTIAL),
    ("pairwise_auc", ALL, {"axis": -1} | ODDS | PARTIAL),
    ("pairwise_auc", ALL, {"axis": 0, "surrogate": "hinge"} | ODDS),
    ("pairwise_auc", ALL, {"surrogate": "squared"} | PARTIAL),
    ("pairwise_auc", ALL, {"surrogate": "barrier_hinge", "barrier": 3.0} | ODDS),
    ("pairwise_auc", ALL, LOGISTIC | PARTIAL),
    ("average_precision", ALL, {}),
    ("average_precision", ALL, LOGISTIC),
    ("average_precision", ALL, {"axis": -1, **ODDS}),
    ("average_precision", ALL, {"axis": 0, "surrogate": "logistic", "scale": 3.0}),
    ("average_precision", ALL, {"surrogate": "hinge"} | ODDS),
    ("auc_margin", ALL, {}),
    ("auc_margin", ALL, {"axis": -1, "margin": 0.3}),
    ("mcc", ALL, {}),
    ("mcc", ALL, {"axis": 0}),
    ("mcc", [SOFTMAX], {"variant": "multiclass"}),
    ("mcc", [SOFTMAX], {"variant": "multiclass", "axis": -1}),
    ("anyloss", ALL, {}),
    ("anyloss", ALL, {"metric": "accuracy"}),
    ("anyloss", ALL, {"metric": "balanced_accuracy"}),
    ("anyloss", ALL, {"metric": "g_mean"}),
    ("anyloss", ALL, {"metric": "mcc"}),
    ("anyloss", ALL, {"axis": -1, "beta": 2.0, "amplification": 5.0}),
    ("anyloss", ALL, {"axis": 0, "metric": "mcc", "amplification": 8.0}),
]

CASES = [
    *_cases(oracle_pointwise, False, POINTWISE),
    *_cases(oracle, False, GOLD),
    *_cases(oracle, True, DICE),
    *_cases(oracle_sets, True, SETS),
    *_cases(oracle_metrics, True, METRICS),
]
