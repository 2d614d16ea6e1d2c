"""Writing parameters as a Hugging Face folder for PyTorch."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from flax.traverse_util import flatten_dict
from safetensors import SafetensorError
from tokenizers import Tokenizer

from dicejax.errors import InputError, first_line
from dicejax.io.parts import part_of
from dicejax.models.encoder import EncoderConfig
from dicejax.models.heads import SequenceHead, TokenHead
from dicejax.models.huggingface.modules import CONFIG, save, write_json, write_modules
from dicejax.models.huggingface.names import SENTENCES, Family, family_of, leaves
from dicejax.models.huggingface.reading import problem_type
from dicejax.models.network import Network, Params

# Special tokens by the tokenizer's names, and transformers' names.
_SPECIAL = {
    "bos_token": ("<s>", "<|begin_of_text|>"),
    "eos_token": ("</s>", "<|end_of_text|>"),
    "pad_token": ("[PAD]", "<pad>"),
    "unk_token": ("[UNK]", "<unk>"),
    "cls_token": ("[CLS]", "<cls>", "<s>"),
    "sep_token": ("[SEP]", "<sep>", "</s>"),
    "mask_token": ("[MASK]", "<mask>", "<|mask|>"),
}


def write_tokenizer(folder: Path, tokenizer: Tokenizer, encoder: EncoderConfig) -> None:
    """Write `tokenizer.json` and `tokenizer_config.json` into a folder.

    `AutoTokenizer` takes `tokenizer.json` as it is only for the class that is named
    here; a model's own class, such as `BertTokenizer`, builds its own steps.
    """
    # RoBERTa has one token type, so it takes none.
    has_types = getattr(encoder, "type_vocab_size", None) != 1
    types = ["token_type_ids"] if has_types else []
    settings: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_input_names": ["input_ids", *types, "attention_mask"],
        "padding_side": "left" if encoder.model_type == "xlnet" else "right",
        # What transformers does by default changes with its version.
        "clean_up_tokenization_spaces": False,
    }
    added = tokenizer.get_added_tokens_decoder().values()
    special = {token.content for token in added if token.special}
    # EuroBERT pads by the end of a text.
    padding = tokenizer.id_to_token(getattr(encoder, "pad_token_id", 0))
    for role, names in _SPECIAL.items():
        if role == "pad_token" and padding in special:
            names = (*names, padding)
        present = [n for n in names if tokenizer.token_to_id(n) is not None]
        # MPNet's vocabulary has BERT's too, as entries like any other.
        present.sort(key=lambda name: name not in special)
        if present:
            settings[role] = present[0]
    # Version 4 takes silence for "no", whatever tokenizer.json says.
    prefixed = getattr(tokenizer.pre_tokenizer, "add_prefix_space", None)
    if prefixed is not None:
        settings["add_prefix_space"] = prefixed
    if encoder.max_length is not None:
        settings["model_max_length"] = encoder.max_length
    write_json(folder / "tokenizer_config.json", settings)
    (folder / "tokenizer.json").write_text(
        tokenizer.to_str(pretty=True), encoding="utf-8"
    )


def write(
    folder: Path,
    network: Network,
    params: Params,
    *,
    labels: Sequence[str] | None = None,
    tokenizer: Tokenizer | None = None,
    settings: Mapping[str, Any] | None = None,
    finish: Callable[[Path, str], None] = lambda folder, name: None,
) -> str:
    """Write `config.json`, `model.safetensors` and the tokenizer's files.

    Of an encoder whose `pooling` no class of transformers has it is a folder of
    sentence-transformers; its last module, of a dense layer, is the head. The folder
    appears whole or not at all.

    Args:
      folder: folder to create; missing or empty.
      network: an encoder with one head, or with none.
      params: network parameters, see `Network.init`.
      labels: names of the head's classes, in their order; a reader has none.
      tokenizer: tokenizer of the encoder.
      settings: further entries of the configuration.
      finish: called with the folder before it appears, and the class to return.

    Returns:
      The PyTorch class that opens the folder, such as "BertForTokenClassification" or
      `SENTENCES`.

    Raises:
      InputError: the folder is taken, or no PyTorch class has such heads.
      ValueError: not as many labels as the head has classes.
    """
    family = family_of(network.encoder)
    encoder = network.encoder
    names = [family.task_class(head, encoder) for _, head in network.heads]
    name = names[0] if names else family.classes + "Model"
    if len(names) > 1 or name is None:
        kinds = ", ".join(type(head).__name__ for _, head in network.heads)
        fault = f"no PyTorch class of {encoder.model_type} has these heads"
        raise InputError(f"{fault}: {kinds}; write the encoder alone")
    with _draft_of(folder) as draft:
        of_root = family.classes + "Model" if name == SENTENCES else name
        content = _config_content(network, of_root, labels)
        content |= settings or {}
        write_json(draft / CONFIG, content)
        tensors = checkpoint(family, network, params)
        if encoder.is_pooled and name in (SENTENCES, family.classes + "Model"):
            tensors = write_modules(draft, encoder, tensors)
        save(tensors, draft)
        if tokenizer is not None:
            write_tokenizer(draft, tokenizer, encoder)
        finish(draft, name)
    return name


@contextlib.contextmanager
def _draft_of(folder: Path) -> Iterator[Path]:
    """Yield a folder that then takes the place of one that is missing or empty."""
    try:
        if folder.is_dir():
            folder = folder.resolve()  # a link to it stays
        if os.path.lexists(folder) and (not folder.is_dir() or any(folder.iterdir())):
            raise InputError(f"{folder}: exists already; name another folder")
        folder.parent.mkdir(parents=True, exist_ok=True)
        made = part_of(folder)
        try:
            draft = made / folder.name
            draft.mkdir(parents=True)
            yield draft
            draft.replace(folder)  # onto nothing, or an empty folder
        finally:
            shutil.rmtree(made, ignore_errors=True)
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or first_line(error)
        raise InputError(
            f"{folder}: cannot be written: {reason}; name another folder"
        ) from error


def _config_content(
    network: Network, class_name: str, labels: Sequence[str] | None
) -> dict[str, Any]:
    content: dict[str, Any] = {"architectures": [class_name]}
    content |= network.encoder.to_json()
    content |= {"dtype": "float32", "torch_dtype": "float32"}
    for _, head in network.heads:  # at most one
        if isinstance(head, SequenceHead):
            content["problem_type"] = problem_type(head)
        if not isinstance(head, TokenHead | SequenceHead):
            continue
        # PyTorch counts the labels to know how wide the head is.
        labels = labels or [f"LABEL_{n}" for n in range(head.classes)]
        if len(labels) != head.classes:
            raise ValueError(f"{len(labels)} labels, but {head.classes} classes")
        content["id2label"] = {str(n): label for n, label in enumerate(labels)}
        content["label2id"] = {label: n for n, label in enumerate(labels)}
    return content


def checkpoint(
    family: Family, network: Network, params: Params
) -> dict[str, np.ndarray]:
    """Return the tensors by the names that the PyTorch class gives them."""
    encoder = network.encoder
    classes = {family.task_class(head, encoder) for _, head in network.heads}
    prefix = family.prefix if classes - {SENTENCES} else ""
    groups = [(family.encoder, params["encoder"], prefix)]
    for name, head in network.heads:
        groups.append((family.tensors(head, encoder), params["heads"][name], ""))
    weights: dict[str, np.ndarray] = {}
    for names, group, before in groups:
        arrays = flatten_dict(group)
        for leaf in leaves(names, group):
            tensors = leaf.to_tensors(np.asarray(arrays[leaf.path]))
            for name, tensor in zip(leaf.names, tensors, strict=True):
                # BERT's pooler belongs to the encoder there, to the head here.
                is_theirs = family.pools and name.startswith("pooler.")
                name = (prefix if is_theirs else before) + name
                parts = [weights[name]] if name in weights else []
                weights[name] = np.concatenate([*parts, tensor])
    return weights
