"""What a run was made with: versions of what its numbers depend on."""

from __future__ import annotations

import platform
from importlib import metadata

import dicejax


def versions() -> dict[str, str]:
    """Return versions by name.

    >>> sorted(versions())
    ['dicejax', 'flax', 'jax', 'jaxlib', 'optax', 'python']
    """
    libraries = ("jax", "jaxlib", "flax", "optax")
    return {
        "dicejax": dicejax.__version__,
        **{name: metadata.version(name) for name in libraries},
        "python": platform.python_version(),
    }
