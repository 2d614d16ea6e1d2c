r"""How many operations the training of an encoder needs, by its architecture.

Counted are the matrix products, each multiplication and each addition, as in Chowdhery
et al., 2022 (PaLM, https://arxiv.org/abs/2204.02311), appendix B. One token passes
through each layer's kernels, of 4 D^2 + 2 D F entries (query, key, value, output, and
the two of the feed-forward part), and looks at the n tokens of its sequence:

.. math::
   \text{forward} = L \, (2 (4 D^2 + 2 D F) + 2 a D n), \quad
   \text{training} = 3 \cdot \text{forward},

where `a` products of D entries are taken for each pair of tokens: 2 in BERT, of query
and key and of weight and value; 3 in XLNet, whose queries meet the encoding of the
distance too. Behind each product of the forward pass stand two in the backward pass,
for the gradients of either factor. ELECTRA's projection of narrower embeddings, E by D,
is counted.

Not counted: what is done to padding or between the sentences of a row; what is
recomputed (`remat`); that XLNet computes its position scores for 2 n distances, of
which a token needs n, and that the encodings of the distances pass through a kernel
once for the batch; embedding tables, which are looked up; heads, normalisation,
softmax, activations, the loss and the optimizer.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dicejax.models.bert import BertConfig
from dicejax.models.encoder import EncoderConfig
from dicejax.models.xlnet import XLNetConfig

_FORWARD_AND_BACKWARD = 3


def flops_per_token(config: EncoderConfig, length: float) -> float | None:
    """Return the floating-point operations that training on one token needs.

    >>> flops_per_token(BertConfig(vocab_size=28996), length=128) / 1e6
    523.763712

    Args:
      config: the encoder.
      length: number of tokens that a token looks at, as `attended_length` gives it.

    Returns:
      Operations; None for an encoder whose formula is not known.
    """
    match config:
        case BertConfig():
            inner, products = config.intermediate_size, 2
            narrower = config.embedding_width != config.width
            projection = narrower * config.embedding_width * config.width
        case XLNetConfig():
            inner, products, projection = config.d_inner, 3, 0
        case _:
            return None
    width = config.width
    kernels = config.depth * (4 * width**2 + 2 * width * inner) + projection
    attention = config.depth * products * width * length
    return _FORWARD_AND_BACKWARD * 2.0 * (kernels + attention)


def attended_length(lengths: Sequence[int]) -> float:
    r"""Return how many tokens a token looks at, in the mean over all tokens.

    The n tokens of a sequence look at n each, so this is more than the mean length:

    .. math:: \sum_i n_i^2 \, / \, \sum_i n_i

    >>> attended_length([10, 30])
    25.0

    Args:
      lengths: number of tokens of each sequence, as packed, not of the rows.
    """
    counts = np.asarray(lengths, np.float64)
    return float((counts**2).sum() / max(counts.sum(), 1.0))
