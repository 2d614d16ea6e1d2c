"""Hand a finished run to PyTorch: a Hugging Face folder with its weights."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from dicejax.models import huggingface
from dicejax.training.runs.checkpoint import Which, restore_params
from dicejax.training.runs.run import Run


def export(
    folder: str, target: str, which: Which, *, encoder_only: bool = False
) -> str:
    """Write a run's weights, architecture, labels and tokenizer as transformers' own.

    Args:
      folder: the run.
      target: the folder to make, which appears whole or not at all.
      which: the checkpoint to use.
      encoder_only: leave the head out.

    Returns:
      The PyTorch class that opens the folder.

    Raises:
      InputError: the run cannot be used, the folder is taken, or PyTorch has no class
        with such a head.
    """
    run = Run.open(folder)
    network = run.network()
    _, params = restore_params(run.checkpoints, network, which)
    if encoder_only:
        network = dataclasses.replace(network, heads=())
    return huggingface.write(
        Path(target).expanduser(),
        network,
        params,
        labels=run.labels(),
        tokenizer=run.tokenizer(),
    )
