"""Dropout sites: as many, of the same sizes, as in PyTorch."""

import contextlib
import sys
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dicejax.models import attention
from dicejax.models.dropout import dropout

# Before the import below, which would leave half a module behind without it.
pytest.importorskip("torch", reason="parity: pip install -e '.[parity]'")

from .peers import configured, our_logits, pair, theirs, torch
from .small import batch_for

ONE_LAYER = {"num_hidden_layers": 1}
RATES = ONE_LAYER | {
    "hidden_dropout_prob": 0.2,
    "attention_probs_dropout_prob": 0.3,
    "classifier_dropout": 0.4,
}
OF_TYPES = {
    "xlnet": {"n_layer": 1, "dropout": 0.2, "summary_last_dropout": 0.4},
    # Buckets that a row of ten tokens uses all of.
    "deberta-v2": RATES
    | {"cls_dropout": 0.4, "pooler_dropout": 0.1, "max_relative_positions": 9},
    "albert": RATES | {"classifier_dropout_prob": 0.4},
    "eurobert": ONE_LAYER | {"attention_dropout": 0.3},
    "distilbert": ONE_LAYER
    | {"dropout": 0.2, "attention_dropout": 0.3, "seq_classif_dropout": 0.4},
}
FAMILIES = (
    *("bert", "roberta", "electra", "xlnet", "deberta-v2", "mpnet"),
    *("ernie", "megatron-bert", "roberta-prelayernorm", "distilbert"),
    *("gte", "nomic_bert", "jina_embeddings_v3", "albert", "eurobert"),
)


def one_layer(family, task):
    # One row, since PyTorch draws dropout of XLNet's positions for each row.
    rates = OF_TYPES.get(family, RATES)
    both = pair(configured(family, **rates), task)
    return both, batch_for(both.network.encoder, lengths=(10,), padded="none")


@contextlib.contextmanager
def replaced(function):
    """Replace `dropout` in all modules that use it, and what attention draws."""

    def draw(shape, rate, keys, axis):
        ones = jnp.ones(shape)
        got = function(ones, rate, keys, axis=axis)
        return None if got is ones else got > 0

    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(attention, "draw_mask", draw))
        for name, module in list(sys.modules.items()):
            used = getattr(module, "dropout", None) is dropout
            if used and name.startswith("dicejax.models."):
                stack.enter_context(mock.patch.object(module, "dropout", function))
        yield


def places(both, batch):
    """Return the size and the rate of every dropout of ours, in turn."""
    sites = []

    def noted(x, rate, key, axis=1):
        if key is not None and rate > 0:
            sites.append((x.size, rate))
        return x

    with replaced(noted):
        # Sizes need no numbers.
        jax.eval_shape(lambda: our_logits(both, both.params, batch, jax.random.key(0)))
    return sites


@pytest.mark.parametrize("task", ["TokenClassification", "SequenceClassification"])
@pytest.mark.parametrize("family", FAMILIES)
def test_dropout_falls_where_it_does_in_pytorch(family, task):
    both, batch = one_layer(family, task)
    expected = []

    def noted(x, p=0.5, training=True, inplace=False):
        if training and p > 0:
            expected.append((x.numel(), p))
        return x

    both.model.train()
    with mock.patch.object(torch.nn.functional, "dropout", noted):
        both.model(**theirs(both, batch))
    assert sorted(places(both, batch)) == sorted(expected)
    # Embeddings, attention weights, its output, feed-forward output, and the head.
    fewer = {"albert": 4, "distilbert": 4, "eurobert": 1}  # which has weights' alone
    assert len(expected) >= fewer.get(family, 5)


@pytest.mark.parametrize(
    "family", ["bert", pytest.param("xlnet", marks=pytest.mark.exhaustive)]
)
def test_each_dropout_by_itself_changes_the_logits(family):
    both, batch = one_layer(family, "TokenClassification")
    plain = np.asarray(our_logits(both, both.params, batch))
    for place in range(len(places(both, batch))):
        turns = iter(range(100))

        def only_here(x, rate, key, axis=1, place=place, turns=turns):
            if key is None or rate == 0:
                return x
            key = key if next(turns) == place else None
            return dropout(x, rate, key, axis=axis)

        with replaced(only_here):
            got = our_logits(both, both.params, batch, jax.random.key(3))
        assert np.abs(np.asarray(got) - plain).max() > 1e-3, place
