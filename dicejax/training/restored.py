"""What a run has learnt: the parameters of its network, or a control in their place."""

from __future__ import annotations

import json

import numpy as np
import safetensors.numpy
from jax.sharding import Mesh

from dicejax import controls
from dicejax.controls import ControlModel
from dicejax.errors import Flaw, InputError, first_line
from dicejax.io import files
from dicejax.models.network import Network, Params
from dicejax.training.checkpoint import Which, restore_params
from dicejax.training.run_folder import CHECKPOINTS, Run, damage

CONTROL = "control.json"
ARRAYS = "control.safetensors"


def write_control(run: Run, model: ControlModel) -> None:
    """Write a control that has no network to a run's folder."""
    settings, arrays = model.state()
    content = {name: np.ascontiguousarray(x) for name, x in arrays.items()}
    run.write(ARRAYS, safetensors.numpy.save(content))
    run.write(CONTROL, json.dumps(settings, ensure_ascii=False) + "\n")


def has_network(run: Run) -> bool:
    """Return whether a run has the parameters of a network."""
    return not files.was_written(run.path, CONTROL)


def restore(
    run: Run, network: Network, which: Which = "best", mesh: Mesh | None = None
) -> tuple[int, Params | ControlModel]:
    """Return the parameters of a checkpoint, and the step that it was saved at.

    Of a control without a network it is the control, at step 0.

    Raises:
      InputError: it is missing or damaged; see `checkpoint.restore_params`.
    """
    if has_network(run):
        return restore_params(run.path / CHECKPOINTS, network, which, mesh)
    settings = run.read_json(CONTROL, dict)
    content = files.read_checked(run.path, ARRAYS)
    try:
        arrays = safetensors.numpy.load(content)
        return 0, controls.restore(settings, arrays, run.experiment().task)
    except Flaw as flaw:
        raise flaw.at(run.path / CONTROL, flaw.line) from flaw
    except safetensors.SafetensorError as error:
        raise damage(run.path / ARRAYS, first_line(error)) from error


def network_params(
    run: Run, network: Network, which: Which = "best", mesh: Mesh | None = None
) -> tuple[int, Params]:
    """Return the step and the parameters of a run, where those of a network are needed.

    Raises:
      InputError: the run is a control without a network, or they cannot be read.
    """
    step, params = restore(run, network, which, mesh)
    if isinstance(params, ControlModel):
        raise InputError(
            f"{run.path}: is the control {params.name}, which has no network; "
            "dicejax predict and dicejax evaluate use it as it is"
        )
    return step, params
