"""The tree of parameters: what decays, what is a layer, what stays as it is.

The tree is `{"encoder": {"embeddings": ..., "layers": ...}, "heads": ...}`, and every
leaf of `layers` has a leading axis over the L layers, the lowest first.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import optax

from dicejax.models.network import Params


def decay_mask(params: Any) -> Any:
    """Mark what weight decay applies to: every parameter but biases and norm scales.

    Whatever ends in "bias" is one, as those that XLNet adds to its queries.

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
    """Let a rule that works tensor by tensor see each layer's tensors by themselves.

    A stacked leaf `[L, ...]` is L tensors, not one: their norms, means and factors are
    taken one layer at a time, as if each had a leaf of its own. For rules that work
    number by number this changes nothing.

    >>> import jax.numpy as jnp
    >>> bias = jnp.array([[3.0, 3.0], [0.5, 0.5]])  # of two layers
    >>> gradients = {"encoder": {"layers": {"bias": bias}}}
    >>> clip = per_layer(optax.clip_by_block_rms(1.0))
    >>> updates, _ = clip.update(gradients, clip.init(gradients))
    >>> print(updates["encoder"]["layers"]["bias"])
    [[1.  1. ]
     [0.5 0.5]]

    Args:
      transform: the rule; what it does to the layers may not depend on the rest.
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
    """Leave out what is frozen: the embeddings, the lowest layers.

    Leaves keep only the layers that are trained; without any, `layers` is left out.

    Args:
      params: the whole tree.
      freeze_embeddings: whether the embeddings are.
      frozen_layers: how many layers are.

    Raises:
      ValueError: more layers are to be frozen than there are.
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
    """Put what `trained` left over back in its place, the rest being as in `params`."""

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
      ValueError: more layers are to be frozen than there are.
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
    """Return two trees, of the stacked layers and of all the rest.

    Names stay as they are: the sharding of a state follows its paths.
    """
    if params is None or "layers" not in params.get("encoder", {}):
        return None, params
    encoder = dict(params["encoder"])
    layers = {"encoder": {"layers": encoder.pop("layers")}}
    return layers, params | {"encoder": encoder}
