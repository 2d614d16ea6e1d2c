"""The tree of parameters: weight decay, layers, frozen parts.

The tree is `{"encoder": {"embeddings": ..., "layers": ...}, "heads": ...}`, and every
leaf of `layers` has a leading axis over the L layers, the lowest first.
"""

from __future__ import annotations

from typing import Any

import jax

from dicejax.models.network import Params


def decay_mask(params: Any) -> Any:
    """Mark the parameters with weight decay: all but biases and norm scales.

    >>> decay_mask({"kernel": 0, "content_bias": 0, "norm": {"scale": 0}})
    {'content_bias': False, 'kernel': True, 'norm': {'scale': False}}
    """
    return jax.tree_util.tree_map_with_path(
        lambda path, _: not path[-1].key.endswith(("bias", "scale")), params
    )


def depth(params: Params) -> int:
    """Return the number of layers, L."""
    return len(jax.tree.leaves(params["encoder"]["layers"])[0])


def trained(params: Params, *, freeze_embeddings: bool, frozen_layers: int) -> Params:
    """Return the tree without the frozen embeddings and lowest layers.

    Leaves keep only the layers that are trained; without any, `layers` is left out.

    Raises:
      ValueError: more layers are frozen than there are.
    """
    if not freeze_embeddings and not frozen_layers:
        return params
    encoder = dict(params["encoder"])
    if freeze_embeddings:
        del encoder["embeddings"]
    if all_layers_frozen(params, frozen_layers):
        del encoder["layers"]
    elif frozen_layers:
        encoder["layers"] = jax.tree.map(
            lambda leaf: leaf[frozen_layers:], encoder["layers"]
        )
    return params | {"encoder": encoder}


def with_frozen(params: Params, new: Params) -> Params:
    """Insert the frozen parameters of `params`, the inverse of `trained`."""

    def put(old: Any, new: Any) -> Any:
        if isinstance(old, dict):
            return {k: put(old[k], new[k]) if k in new else old[k] for k in old}
        if old.shape == new.shape:
            return new
        # The upper layers of a stacked leaf; as a slice it is written in place where
        # the old buffer is given up.
        start = len(old) - len(new)
        return jax.lax.dynamic_update_slice_in_dim(old, new, start, axis=0)

    return put(params, new)


def all_layers_frozen(params: Params, frozen_layers: int) -> bool:
    """Return whether no layer is trained.

    Raises:
      ValueError: more layers are frozen than there are.
    """
    if not frozen_layers:
        return False
    layers = depth(params)
    if frozen_layers > layers:
        raise ValueError(
            f"frozen_layers is {frozen_layers}; the encoder has {layers} layers"
        )
    return frozen_layers == layers
