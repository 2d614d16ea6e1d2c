"""Find out whether dice, focal or another loss beats cross-entropy on your data.

Everything is imported when it is first used; `docs/library.md` shows how it is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from dicejax.errors import hint

if TYPE_CHECKING:
    from dicejax import losses
    from dicejax.library import encode, from_pretrained
    from dicejax.models.heads import SequenceHead, TokenHead
    from dicejax.objectives import loss
    from dicejax.study.compare import compare
    from dicejax.training.inference import evaluate, predict
    from dicejax.training.train import train

DESCRIPTION = (
    "Find out whether dice, focal or another loss beats cross-entropy on your "
    "imbalanced text data. In JAX."
)

__version__ = "0.2.0"

__all__ = [
    "SequenceHead",
    "TokenHead",
    "compare",
    "encode",
    "evaluate",
    "from_pretrained",
    "loss",
    "losses",
    "predict",
    "train",
]

_MODULES = {
    "SequenceHead": "models.heads",
    "TokenHead": "models.heads",
    "compare": "study.compare",
    "encode": "library",
    "evaluate": "training.inference",
    "from_pretrained": "library",
    "loss": "objectives",
    "predict": "training.inference",
    "train": "training.train",
}


def __getattr__(name: str) -> Any:
    if name == "losses":
        return importlib.import_module("dicejax.losses")
    if name not in _MODULES:
        raise AttributeError(
            f"module 'dicejax' has no attribute {name!r}{hint(name, __all__)}"
        )
    return getattr(importlib.import_module(f"dicejax.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
