"""PyTorch's models vs. ours: the same weights, batch and loss."""

import dataclasses
import tempfile
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dicejax.models import huggingface
from dicejax.models.bert import ROBERTA_LIKE
from dicejax.models.heads import SequenceHead, StartEndHead, TokenHead
from dicejax.models.huggingface.names import FAMILIES
from dicejax.models.huggingface.writing import checkpoint
from dicejax.models.network import Network

from .small import inputs_of, quickly

torch = pytest.importorskip("torch", reason="parity: pip install -e '.[parity]'")
transformers = pytest.importorskip("transformers")

CLASSES = 5
HEADS = {
    "TokenClassification": TokenHead(classes=CLASSES),
    "QuestionAnswering": StartEndHead(),
    "SequenceClassification": SequenceHead(classes=CLASSES),
}
SMALL = {
    "vocab_size": 50,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 40,
    "max_position_embeddings": 24,
}
ROLES = ("pad", "bos", "eos", "cls", "sep")
ROBERTA = {"type_vocab_size": 1, "pad_token_id": 1, "max_position_embeddings": 26}
OF_KINDS = {
    **dict.fromkeys((*ROBERTA_LIKE, "roberta-prelayernorm"), ROBERTA),
    "ernie": {"use_task_id": True},
    "albert": {"embedding_size": 12},
    "distilbert": {"hidden_dim": 40},
    "gte": {"type_vocab_size": 2},
    "eurobert": {"num_key_value_heads": 1, "pad_token_id": 3},
    # Eight buckets: distances from 5 on share them by their logarithm.
    "deberta-v2": {
        "relative_attention": True,
        "position_buckets": 8,
        "norm_rel_ebd": "layer_norm",
        "share_att_key": True,
        "pos_att_type": "p2c|c2p",
        "position_biased_input": False,
    },
    "mpnet": {"max_position_embeddings": 26},
    # Its special tokens are beyond 50 entries by default.
    "modernbert": {
        "local_attention": 6,
        **{f"{role}_token_id": n for n, role in enumerate(ROLES)},
    },
}
SMALL_XLNET = {
    "vocab_size": 50,
    "d_model": 24,
    "n_layer": 2,
    "n_head": 3,
    "d_inner": 40,
    "mem_len": None,
}


@dataclasses.dataclass
class Pair:
    """PyTorch model and our network with its weights."""

    model: Any
    network: Network
    params: Any

    def ours_by_their_names(self, params):
        """Return a dict like our parameters with PyTorch's names and shapes."""
        family = FAMILIES[self.network.encoder.model_type]
        return checkpoint(family, self.network, jax.tree.map(np.asarray, params))


def configured(model_type, **settings):
    """Return PyTorch's configuration of a small model."""
    if model_type == "xlnet":
        return transformers.XLNetConfig(**SMALL_XLNET | settings)
    of_kind = OF_KINDS.get(model_type, {})
    return transformers.AutoConfig.for_model(model_type, **SMALL | of_kind | settings)


def pair(config, task, seed=0):
    """Return a model with all weights drawn, biases and scales included."""
    config.num_labels = 2 if task == "QuestionAnswering" else CLASSES
    # Attention spelled out, so that each of its dropouts can be seen.
    config._attn_implementation = "eager"
    model = getattr(transformers, f"AutoModelFor{task}").from_config(config).eval()
    return with_our_network(drawn(model, seed), task)


def drawn(model, seed):
    """Draw all weights; initial ones leave attention nearly even."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            is_scale = name.lower().endswith("norm.weight")
            weight.normal_(float(is_scale), 0.2, generator=generator)
    return model


def with_our_network(model, task):
    """Read the folder that a PyTorch model writes."""
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "model"
        model.save_pretrained(folder)
        network = Network(
            encoder=huggingface.read_config(folder), heads=((task, HEADS[task]),)
        )
        weights = huggingface.read_weights(folder, network)
    assert not weights.new_heads
    return Pair(model, network, weights.params)


def theirs(pair, batch, masked=True):
    """Return PyTorch's inputs for a batch."""
    return inputs_of(torch, pair.network.encoder, batch, masked)


def logits_of(output):
    """Return PyTorch's logits, ends side by side."""
    if "start_logits" in output:
        return torch.stack([output.start_logits, output.end_logits], dim=-1)
    return output.logits


def our_logits(pair, params, batch, rng=None):
    """Return our logits in the same form."""
    logits = pair.network.apply(params, batch, rng)
    if "start" in logits:
        return jnp.stack([logits["start"], logits["end"]], axis=-1)
    (only,) = logits.values()
    return only


def weights_of_loss(batch, shape, seed=1):
    """Draw weights of the logits in the loss; 0 for padding."""
    weights = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    real = batch["segment_ids"] > 0
    return weights * real[..., None] if len(shape) == 3 else weights


def compute_theirs(pair, batch, masked=True):
    """Return PyTorch's states, logits, and gradients of `sum(w * (x + x**2))`.

    The gradients are a dict by PyTorch's names.
    """
    pair.model.zero_grad(set_to_none=True)
    inputs = theirs(pair, batch, masked)
    output = pair.model(**inputs, output_hidden_states=True)
    logits = logits_of(output)
    weights = torch.tensor(weights_of_loss(batch, logits.shape))
    (weights * (logits + logits**2)).sum().backward()
    gradients = {
        name: (0 * weight.detach() if weight.grad is None else weight.grad).numpy()
        for name, weight in pair.model.named_parameters()
    }
    states = [state.detach().numpy() for state in output.hidden_states]
    return states, logits.detach().numpy(), gradients


def compute_ours(pair, batch):
    """Return ours."""

    @quickly
    def everything(params, batch):
        def loss(params):
            logits = our_logits(pair, params, batch)
            weights = weights_of_loss(values, logits.shape)
            return (weights * (logits + logits**2)).sum(), logits

        states = pair.network.hidden_states(params, batch)
        return states, *jax.grad(loss, has_aux=True)(params)

    values = batch  # its values, where the argument of the trace has none
    states, gradients, logits = everything(pair.params, batch)
    return states, logits, pair.ours_by_their_names(gradients)


def compare(batch, ours, peers, unmoved=(), within=1e-4):
    """Compare real tokens with PyTorch.

    Tensors that end as in `unmoved` have no gradient. States and logits may differ by
    `within`.
    """
    real = batch["segment_ids"] > 0
    (states, logits, gradients), (their_states, their_logits, expected) = ours, peers
    pairs = [("states", *both) for both in zip(states, their_states, strict=True)]
    pairs.append(("logits", logits, their_logits))
    for kind, got, want in pairs:
        assert got.shape == want.shape
        difference = np.abs(np.asarray(got) - want)
        difference = difference[real] if want.ndim == 3 else difference
        assert difference.max() < within, kind
        assert difference.mean() < 1e-5, kind
    assert gradients.keys() == expected.keys()
    largest = max(np.abs(gradient).max() for gradient in expected.values())
    for name, want in expected.items():
        got = gradients[name]
        assert got.shape == want.shape, name
        if name.endswith(tuple(unmoved)):
            # 0 by symmetry, up to rounding.
            assert np.abs(want).max() < 1e-5 * largest, name
            assert np.abs(got).max() < 1e-5 * largest, name
            continue
        assert np.abs(want).max() > 1e-5 * largest, name
        assert np.abs(got - want).max() < 1e-3 * np.abs(want).max(), name
