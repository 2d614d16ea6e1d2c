"""Every loss once for each form and branch, and ranges of its hyper-parameters.

For laws that hold for every loss. `CASES` of `cases` has more settings; these are few
enough to differentiate each, under one jit shared by all laws.
"""

import dataclasses
import functools
import inspect
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dicejax import losses

from ..kinds import exhaustive_but
from .cases import BINARY, CASES, COUNTS, FORMS, LAYOUTS, PER_CLASS, SOFTMAX, Case

GAMMAS = (0.0, 1e-3, 0.01, 0.5, 1.0, 2.0, 8.0)
SMOOTH = (0.0, 1e-6, 1.0, 100.0)
SHARES = (0.0, 0.3, 1.0)
# Compiled in half the time, for programs whose values others check too.
QUICKLY = {"xla_backend_optimization_level": 0}
SLOPES, BETAS = (0.1, 1.0, 10.0, 50.0), (0.1, 0.5, 1.0, 2.0, 8.0)
# Values of each traced scalar, with the ends of its range; of some losses, others.
VALUES = {
    "alpha": GAMMAS,
    "amplification": (0.1, 5.0, 73.0, 500.0),
    "barrier": (1.0, 2.0, 100.0),
    "beta": BETAS,
    "delta": SHARES,
    "epsilon": (-1.0, -0.5, 0.0, 1.0, 8.0),
    "gamma": GAMMAS,
    "gamma_negative": GAMMAS,
    "gamma_positive": GAMMAS,
    "k": (1.0, 10.0),
    "kappa": (0.0, 0.05, 1.0),
    "label_smoothing": (0.0, 0.1, 1.0),
    "margin": (1e-3, 0.5, 1.0, 10.0),
    "max_fpr": (1e-3, 0.3, 1.0),
    "max_margin": (0.0, 0.5, 5.0),
    "momentum": (0.0, 0.75, 0.99),
    "mu": (1e-3, 0.02, 1.0, 100.0),
    "offset": (-10.0, 0.0, 10.0),
    "scale": SLOPES,
    "slope": SLOPES,
    "smooth": SMOOTH,
    "tau": (0.0, 0.5, 1.0, 8.0),
    "weight": SHARES,
}
OTHER_VALUES = {
    ("weighted_cross_entropy", "beta"): (0.0, 0.9, 0.9999),
    ("focal", "beta"): (0.0, 0.9, 0.9999),
    ("class_balanced", "beta"): (0.0, 0.9, 0.9999),
    ("log_dice", "smooth"): (1e-6, 1.0, 100.0),
    ("asymmetric", "margin"): (0.0, 1e-3, 0.05, 0.5, 0.99),
    ("distribution_balanced", "alpha"): (0.0, 0.1, 1.0),
    ("distribution_balanced", "beta"): (0.0, 10.0, 50.0),
    ("distribution_balanced", "mu"): (0.0, 0.3, 1.0),
    ("tversky", "beta"): GAMMAS,
    ("focal_tversky", "beta"): GAMMAS,
    ("focal_tversky", "gamma"): (1.0, 4 / 3, 3.0, 8.0),
    ("unified_focal", "gamma"): (0.0, 1e-3, 0.5, 0.99),
}


def ghm(logits, labels, *, bins=10, momentum=0.75, **settings):
    """The losses of a first batch, weighed by their gradient norms."""
    state = losses.ghm_state(bins)
    return losses.ghm(logits, labels, state, momentum=momentum, **settings)[0]


def _branch(case):
    chosen = case.settings
    over_batch = "axis" in chosen and chosen["axis"] is None
    smoothed = "label_smoothing" in chosen
    names = ("form", "variant", "surrogate", "metric", "max_fpr")
    return (case.function, case.form, over_batch, smoothed, *map(chosen.get, names))


HARMONISED = [
    Case(f"{form}-ghm", ghm, None, LAYOUTS[form], form, False, form != SOFTMAX)
    for form in FORMS
]
EVERY = [*{_branch(case): case for case in reversed(CASES)}.values(), *HARMONISED]


def ghm_regression(logits, labels, *, where, mu=0.02, momentum=0.7, axis_name=None):
    """The losses of a first batch towards the labels as numbers."""
    targets, where = jnp.asarray(labels, logits.dtype), where & (labels >= 0)
    state = losses.ghm_state()
    settings = {"mu": mu, "momentum": momentum, "axis_name": axis_name}
    return losses.ghm_regression(logits, targets, state, where=where, **settings)[0]


def adjust_logits(logits, labels, *, where, class_counts, tau=1.0):
    """The cross-entropy of adjusted logits."""
    adjusted = losses.adjust_logits(logits, class_counts=class_counts, tau=tau)
    return losses.cross_entropy(adjusted, labels, where=where)


def overlap_counts(logits, labels, *, where, alpha=0.5, axis_name=None):
    """The counts, and the losses made from them."""
    counts = losses.overlap_counts(
        logits, labels, where=where, alpha=alpha, axis_name=axis_name
    )
    finished = (losses.dice_from_counts(counts), losses.tversky_from_counts(counts))
    return jnp.stack([*jax.tree.leaves(counts), *finished])


def _other(function, form, is_set, **settings):
    name = f"{form}-{function.__name__}"
    return Case(name, function, None, settings, form, is_set, takes_soft=False)


# Other functions in the form of a loss: for derivatives and meshes.
OTHERS = [
    _other(ghm_regression, BINARY, False),
    _other(losses.hard_negatives, SOFTMAX, False, negatives_per_positive=0.5),
    _other(adjust_logits, SOFTMAX, False, class_counts=COUNTS[SOFTMAX]),
    _other(overlap_counts, SOFTMAX, True),
]
BY_NAME = {case.name: case for case in [*CASES, *HARMONISED, *OTHERS]}


def _ranges(function):
    names = [name for name in inspect.signature(function).parameters if name in VALUES]
    others = ((function.__name__, name) for name in names)
    return {key[1]: OTHER_VALUES.get(key, VALUES[key[1]]) for key in others}


RANGES = {case.function.__name__: _ranges(case.function) for case in BY_NAME.values()}


def raises(message):
    """Expect a ValueError whose message begins so."""
    return pytest.raises(ValueError, match="^" + re.escape(message))


def one_of_each(cases):
    """Return the first case of each function."""
    return list({case.function: case for case in reversed(cases)}.values())[::-1]


def covering(cases):
    """Return the cases with a form or a setting that no case before them has."""
    first = {}
    for case in cases:
        for setting in (case.form, *map(str, case.settings.items())):
            first.setdefault((case.function, setting), case)
    return list({case.name: case for case in first.values()}.values())


def some(cases):
    """Return the first case of each function, and all of a pointwise and a set loss."""
    forms = (losses.focal, losses.dice)
    firsts = one_of_each(cases)
    return [case for case in cases if case in firsts or case.function in forms]


def over(cases, fast=some):
    """Parametrize a test over cases; all but the `fast` ones are exhaustive."""
    cases = list(cases)
    params = exhaustive_but(fast(cases), cases)
    return pytest.mark.parametrize("case", params, ids=lambda case: case.name)


def parameters(case: Case) -> dict[str, np.ndarray]:
    """Return the traced hyper-parameters of a case: its own, else default values."""
    traced = (*RANGES[case.function.__name__], *PER_CLASS)
    chosen = {
        name: case.settings.get(name, parameter.default)
        for name, parameter in inspect.signature(case.function).parameters.items()
        if name in traced
    }
    return {
        name: np.asarray(value, np.float64)
        for name, value in chosen.items()
        if value is not None
    }


def with_static_settings(case: Case) -> Case:
    """Return the case without its traced hyper-parameters."""
    traced = parameters(case).keys()
    static = {n: value for n, value in case.settings.items() if n not in traced}
    return dataclasses.replace(case, settings=static)


@functools.cache
def value_and_gradients(name: str):
    """Return (logits, parameters, labels, where) -> ((sum, losses), gradients)."""
    case = with_static_settings(BY_NAME[name])

    def total(logits, parameters, labels, where):
        values = case.loss(logits, labels, where=where, **parameters)
        return values.sum(), values

    return jax.jit(jax.value_and_grad(total, argnums=(0, 1), has_aux=True))
