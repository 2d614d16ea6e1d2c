"""Adapters of a model, which are not read: what merges one into the weights."""

from __future__ import annotations

from pathlib import Path

from dicejax.errors import InputError

_FILE = "adapter_config.json"


def require_none(folder: Path) -> None:
    """Raise an InputError if a folder is an adapter."""
    if (folder / _FILE).exists():
        fault = f"{folder}: is an adapter, which is not read"
        raise InputError(f"{fault}; {_merging('MODEL', folder)}")


def note_of(folder: Path) -> str | None:
    """Return a note on adapters in folders of a model's folder, if there are any."""
    adapters = sorted(file.parent for file in folder.glob(f"*/{_FILE}"))
    if not adapters:
        return None
    names = ", ".join(adapter.name for adapter in adapters)
    return f"{folder}: read without {names}; {_merging(folder, adapters[0])}"


def _merging(model: Path | str, adapter: Path) -> str:
    return (
        'with peft one is merged: python -c "from peft import PeftModel as P; from '
        f"transformers import AutoModel as M; P.from_pretrained(M.from_pretrained("
        f"'{model}'), '{adapter}').merge_and_unload().save_pretrained('MERGED')\"; "
        "copy the tokenizer's files there too"
    )
