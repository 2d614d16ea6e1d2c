"""The tokenizer's files of a folder that PyTorch's transformers opens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from dicejax.models.encoder import EncoderConfig

# What a tokenizer calls its special tokens, and what transformers calls them.
_SPECIAL = {
    "bos_token": ("<s>",),
    "eos_token": ("</s>",),
    "pad_token": ("[PAD]", "<pad>"),
    "unk_token": ("[UNK]", "<unk>"),
    "cls_token": ("[CLS]", "<cls>", "<s>"),
    "sep_token": ("[SEP]", "<sep>", "</s>"),
    "mask_token": ("[MASK]", "<mask>"),
}


def write_tokenizer(folder: Path, tokenizer: Tokenizer, encoder: EncoderConfig) -> None:
    """Write `tokenizer.json` and `tokenizer_config.json`.

    `AutoTokenizer` takes `tokenizer.json` as it stands only for the class that is named
    here: a model's own class, `BertTokenizer` and the like, builds the steps anew from
    the vocabulary and settings of its own.

    Args:
      folder: exists.
      tokenizer: belongs to the encoder.
      encoder: says which inputs the model takes, and how long they may be.
    """
    settings: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_input_names": _input_names(encoder),
        "padding_side": "left" if encoder.model_type == "xlnet" else "right",
        # What transformers does by default changes with its version.
        "clean_up_tokenization_spaces": False,
    }
    for role, names in _SPECIAL.items():
        known = [n for n in names if tokenizer.token_to_id(n) is not None]
        if known:
            settings[role] = known[0]
    # Version 4 takes silence for "no", whatever tokenizer.json says.
    prefixed = getattr(tokenizer.pre_tokenizer, "add_prefix_space", None)
    if prefixed is not None:
        settings["add_prefix_space"] = prefixed
    if encoder.max_length is not None:
        settings["model_max_length"] = encoder.max_length
    content = json.dumps(settings, indent=2, ensure_ascii=False) + "\n"
    (folder / "tokenizer_config.json").write_text(content, encoding="utf-8")
    (folder / "tokenizer.json").write_text(
        tokenizer.to_str(pretty=True), encoding="utf-8"
    )


def _input_names(encoder: EncoderConfig) -> list[str]:
    """RoBERTa's table of token types has one row: there is nothing to choose."""
    if getattr(encoder, "type_vocab_size", None) == 1:
        return ["input_ids", "attention_mask"]
    return ["input_ids", "token_type_ids", "attention_mask"]
