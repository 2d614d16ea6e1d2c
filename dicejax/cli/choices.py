"""What the command line chooses by name: losses and optimizers."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from dicejax import objectives
from dicejax.errors import InputError
from dicejax.objectives import Objective
from dicejax.training import optimizers
from dicejax.training.optimizers import Optimizer


def objective_named(name: str) -> Objective:
    """Return a loss at its defaults.

    Raises:
      InputError: there is none of this name.
    """
    return _chosen("loss", name, objectives.by_short_name())


def optimizer_named(name: str) -> Optimizer:
    """Return an optimizer at its defaults.

    Raises:
      InputError: there is none of this name.
    """
    return _chosen("optimizer", name, optimizers.by_short_name())


def hint(name: str, known: Iterable[str]) -> str:
    """Return what to add to an error: the name that may have been meant.

    >>> hint("trian", ["train", "predict"])
    '; did you mean train?'
    """
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _chosen(what: str, name: str, known: Mapping[str, type]) -> Any:
    if name not in known:
        names = ", ".join(known)
        raise InputError(f"unknown {what} {name!r}; known: {names}{hint(name, known)}")
    return known[name]()
