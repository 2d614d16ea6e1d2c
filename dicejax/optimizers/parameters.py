"""The tree of parameters: weight decay, layers, frozen parts.

The tree is `{"encoder": {"embeddings": ..., "layers": ...}, "heads": ...}`, and every
leaf of `layers` has a leading axis over the L layers, the lowest first.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import optax

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


class PerLayerState(NamedTuple):
    """The state of `per_layer`.

    Attributes:
      layers: of the stacked layers; every array has a leading axis over them.
      rest: of all other parameters.
    """

    layers: Any
    rest: Any


def per_layer(transform: optax.GradientTransformation) -> optax.GradientTransformation:
    """Apply a tensor-wise rule to each layer's tensors separately.

    A stacked leaf `[L, ...]` is L tensors: norms, means and factors are taken per
    layer. Elementwise rules are unaffected.

    >>> import jax.numpy as jnp
    >>> bias = jnp.array([[3.0, 3.0], [0.5, 0.5]])  # of two layers
    >>> gradients = {"encoder": {"layers": {"bias": bias}}}
    >>> clip = per_layer(optax.clip_by_block_rms(1.0))
    >>> updates, _ = clip.update(gradients, clip.init(gradients))
    >>> print(updates["encoder"]["layers"]["bias"])
    [[1.  1. ]
     [0.5 0.5]]

    Args:
      transform: the rule; its layers may not depend on the rest.
    """

    def init(params: Params) -> PerLayerState:
        layers, rest = _split(params)
        of_layers = jax.vmap(transform.init)(layers) if layers else ()
        return PerLayerState(of_layers, transform.init(rest))

    def update(
        updates: Params, state: PerLayerState, params: Params | None = None
    ) -> tuple[Params, PerLayerState]:
        layers, rest = _split(updates)
        layers_params, rest_params = _split(params)
        rest, rest_state = transform.update(rest, state.rest, rest_params)
        if not layers:
            return rest, PerLayerState((), rest_state)
        layers, layers_state = jax.vmap(transform.update)(
            layers, state.layers, layers_params
        )
        joined = rest | {"encoder": rest["encoder"] | layers["encoder"]}
        return joined, PerLayerState(layers_state, rest_state)

    return optax.GradientTransformation(init, update)


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


def _split(params: Params | None) -> tuple[Params | None, Params | None]:
    """Return two trees, the stacked layers and the rest, with unchanged paths."""
    if params is None or "layers" not in params.get("encoder", {}):
        return None, params
    encoder = dict(params["encoder"])
    layers = {"encoder": {"layers": encoder.pop("layers")}}
    return layers, params | {"encoder": encoder}
