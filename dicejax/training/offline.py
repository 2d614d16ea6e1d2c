"""Experiments of run folders, which may come from elsewhere, kept off the network."""

from __future__ import annotations

import dataclasses

from dicejax import config
from dicejax.data.sources import FileSource
from dicejax.errors import InputError, quote
from dicejax.training.run_folder import EXPERIMENT, Run

# A data set of the user's own experiment file is this one.
_SOURCE = ("data.type", "data.name", "data.dir")


def offline(run: Run, *, data: str | None = None) -> config.Experiment:
    """Return a run's experiment, such that reading its data fetches and runs nothing.

    Addresses (scheme://) and data sets for which code may be fetched are refused,
    unless the experiment file in use (`config.classes_of`) names the same.

    Args:
      run: the run, from anywhere.
      data: folder or address, named by the user, to read the data from instead.

    Raises:
      InputError: its data would have to be fetched, or code be run.
    """
    experiment, origin = run.experiment(), run.path / EXPERIMENT
    if data is not None:
        if not isinstance(experiment.data, FileSource):
            raise InputError("--data: this run read no folder of files")
        source = dataclasses.replace(experiment.data, dir=data)
        experiment = dataclasses.replace(experiment, data=source)
    given, leaves = config.given(), config.leaves(experiment)
    remedy = "name the experiment file that says so with --experiment"
    for name, value in leaves.items():
        if not isinstance(value, str) or "://" not in value:
            continue
        if value not in (data, given.get(name)):
            raise InputError(
                f"{origin}: {name} is {quote(value)}, which is not fetched because a "
                f"run folder says so; {remedy}, or a folder with --data"
            )
    if given and all(given.get(name) == leaves.get(name) for name in _SOURCE):
        return experiment
    try:
        return dataclasses.replace(experiment, data=experiment.data.offline())
    except InputError as error:
        raise InputError(f"{origin}: {error}; {remedy}") from error
