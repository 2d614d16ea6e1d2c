"""Hugging Face folders in and out: `config.json`, `*.safetensors`, the tokenizer."""

from dicejax.models.huggingface.hub import locate
from dicejax.models.huggingface.reading import (
    Weights,
    checksum,
    config_from,
    read_config,
    read_weights,
)
from dicejax.models.huggingface.writing import write

__all__ = [
    "Weights",
    "checksum",
    "config_from",
    "locate",
    "read_config",
    "read_weights",
    "write",
]
