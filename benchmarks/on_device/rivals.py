"""PyTorch packed as we are: attention within the segments of a row, in transformers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

WAYS = ("varlen_attn", "flex_attention", "mask")
"""FlashAttention over all segments in a line; compiled blocks; SDPA with a mask."""


def attention_of(
    way: str, segment_ids: np.ndarray, device: str, windows: Sequence[int | None]
) -> Callable[..., Any]:
    """Return an attention function of transformers for rows with these segments.

    It drops no weights, which the first two of `WAYS` cannot.

    Args:
      way: one of `WAYS`. A CPU has but a mask: it does not differentiate the others.
      segment_ids: int `[B, T]`; padding is a segment of its own.
      device: where the arrays are.
      windows: the farthest token that a layer attends to, None: all of the segment.
    """
    import torch

    rows, length = segment_ids.shape
    segments = torch.tensor(segment_ids, device=device)
    places = torch.arange(length, device=device)
    starts = torch.tensor(boundaries(segment_ids), dtype=torch.int32, device=device)
    longest = int(starts.diff().max())

    def seen(window: int | None, row: Any, query: Any, key: Any) -> Any:
        same = segments[row, query] == segments[row, key]
        return same if window is None else same & ((query - key).abs() <= window)

    def by_varlen(window, query, key, value):
        from torch.nn.attention.varlen import varlen_attn

        flat = (x.transpose(1, 2).flatten(0, 1) for x in (query, key, value))
        # PyTorch before 2.12 has no windows.
        options = {} if window is None else {"window_size": (window, window)}
        out = varlen_attn(*flat, starts, starts, longest, longest, **options)
        return out.unflatten(0, (rows, length))

    def by_flex(window, query, key, value):
        from torch.nn.attention.flex_attention import flex_attention

        out = flex_attention(query, key, value, block_mask=block_masks[window])
        return out.transpose(1, 2)

    def by_mask(window, query, key, value):
        row = torch.arange(rows, device=device)[:, None, None, None]
        mask = seen(window, row, places[:, None], places)
        attend = torch.nn.functional.scaled_dot_product_attention
        return attend(query, key, value, attn_mask=mask).transpose(1, 2)

    def block_mask(window):
        from torch.nn.attention.flex_attention import create_block_mask

        def mask(row, head, query, key):
            return seen(window, row, query, key)

        return create_block_mask(mask, rows, None, length, length, device=device)

    # Made here: a compiled model would trace it.
    block_masks = {x: block_mask(x) for x in windows} if way == WAYS[1] else {}
    call = dict(zip(WAYS, (by_varlen, by_flex, by_mask), strict=True))[way]

    def attention(module, query, key, value, mask, sliding_window=None, **unused):
        # Transformers' windows count the token itself.
        window = None if sliding_window is None else sliding_window - 1
        arrays = (x.to(value.dtype) for x in (query, key, value))
        return call(window, *arrays).contiguous(), None

    return attention


def boundaries(segment_ids: np.ndarray) -> np.ndarray:
    """Return where segments start if rows stand in a line, and where the last ends.

    >>> boundaries(np.array([[1, 1, 2], [1, 0, 0]])).tolist()
    [0, 2, 3, 4, 6]
    """
    new = np.ones(segment_ids.shape, bool)
    new[:, 1:] = segment_ids[:, 1:] != segment_ids[:, :-1]
    return np.append(np.flatnonzero(new), segment_ids.size)
