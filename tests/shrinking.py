"""Experiments made small enough to train in a test."""

import dataclasses
from pathlib import Path

from dicejax import config

from . import tiny

ROOT = Path(__file__).parents[1] / "experiments"
FILES = sorted(f for f in ROOT.rglob("*.py") if "def get_config" in f.read_text())
NAMES = [str(file.relative_to(ROOT).with_suffix("")) for file in FILES]


def shrunk(experiment: config.Experiment, folder: Path) -> config.Experiment:
    """Return the experiment with a small generated corpus and a small encoder."""
    return dataclasses.replace(
        experiment,
        data=tiny.fitting(experiment.data, experiment.task, folder),
        encoder=config.ScratchEncoder(
            hidden_size=8,
            intermediate_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            vocab_size=99,
        ),
        training=dataclasses.replace(
            experiment.training, epochs=2, max_length=64, batch_size=4
        ),
    )
