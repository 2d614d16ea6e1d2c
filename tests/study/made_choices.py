"""A small experiment to choose for, and quick choices."""

import pytest

from dicejax import config
from dicejax.data.synthetic import SyntheticNER
from dicejax.study import choose as choosing
from dicejax.study.choose import search as searching

SMALL = config.Experiment(
    name="small",
    data=SyntheticNER(train=60, dev=30, test=30, o_per_entity=5.0),
    encoder=config.ScratchEncoder(
        vocab_size=80, hidden_size=16, intermediate_size=32, num_hidden_layers=1
    ),
    training=config.Training(epochs=1, batch_size=16, max_length=32),
)


@pytest.fixture
def quick(monkeypatch):
    """Let a choice try the first settings alone, with one seed."""
    for name in ("other_rates", "other_settings"):
        monkeypatch.setattr(searching, name, lambda *args: [])
    monkeypatch.setattr(searching, "SEEDS", 1)
    monkeypatch.setattr(choosing, "MOST_SEEDS", 3)
