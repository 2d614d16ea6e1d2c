"""Exported tokenizers are the same in transformers."""

import json

import jax
import numpy as np
import pytest
import transformers
from tokenizers import Tokenizer, models

from dicejax.data import tokenize
from dicejax.models import huggingface
from dicejax.models.heads import TokenHead
from dicejax.models.huggingface.writing import write_tokenizer
from dicejax.models.network import Network

from ..models.small import encoder_of
from . import made

ROBERTA = {"model_type": "roberta", "type_vocab_size": 1, "pad_token_id": 1}
ROBERTA |= {"max_position_embeddings": 514}


def encoder_for(kind, entries):
    family = kind.split("-")[0]
    family = family if family in ("xlnet", "deberta", "mpnet") else "bert"
    settings = ROBERTA if kind == "byte_level" else {}
    settings = {"max_position_embeddings": 514} if kind == "mpnet" else settings
    return encoder_of(family, 8, 8, heads=2, depth=1, vocab=entries, **settings)


@pytest.fixture(scope="module", params=[*made.KINDS, *made.REAL])
def pair(request, tmp_path_factory):
    """Return our tokenizer for words, and AutoTokenizer's."""
    kind, folder = request.param, tmp_path_factory.mktemp("model")
    if kind in made.KINDS:
        tokenizer = made.read(kind, folder, words=True)
    else:
        data = request.getfixturevalue("data_folder")
        tokenizer = tokenize.read(data / "vocab" / kind)
    network = Network(
        encoder=encoder_for(kind, tokenizer.get_vocab_size()),
        heads=(("tags", TokenHead(classes=3)),),
    )
    out = folder / "out"
    params = network.init(jax.random.key(0))
    huggingface.write(out, network, params, tokenizer=tokenizer)
    return kind, tokenizer, transformers.AutoTokenizer.from_pretrained(out), out


def test_texts_pairs_and_words_are_encoded_alike(pair):
    _, ours, theirs, _ = pair
    texts = [*made.TEXTS, made.SENTENCE]
    firsts = [text for text in texts if text]
    seconds = firsts[::-1]  # transformers takes an empty second text for none
    mine = tokenize.encode_texts(ours, texts)
    mine += tokenize.encode_texts(ours, firsts, seconds)
    yours = [theirs(t, return_token_type_ids=True) for t in texts]
    yours += [
        theirs(a, b, return_token_type_ids=True)
        for a, b in zip(firsts, seconds, strict=True)
    ]
    mine += tokenize.encode(ours, [list(texts)])
    words = theirs(list(texts), is_split_into_words=True, return_token_type_ids=True)
    for a, b in zip(mine, [*yours, words], strict=True):
        assert a.ids.tolist() == b["input_ids"]
        assert a.token_types.tolist() == b["token_type_ids"]
        assert a.texts.tolist() == [-1 if s is None else s for s in b.sequence_ids()]
    assert mine[-1].words.tolist() == [-1 if w is None else w for w in words.word_ids()]


def test_offsets_are_the_same_but_for_what_is_mended(pair):
    kind, ours, theirs, _ = pair
    text = "New York, 1,000 cats: Zürich 東京 x"
    (mine,) = tokenize.encode_texts(ours, [text])
    yours = np.array(theirs(text, return_offsets_mapping=True)["offset_mapping"])
    # DeBERTa's have the space in front of a word.
    yours = np.array([made.trimmed(text, *pair) for pair in yours])
    solid = mine.offsets[:, 0] < mine.offsets[:, 1]
    np.testing.assert_array_equal(mine.offsets[solid], yours[solid])
    if kind.startswith(("bert", "wordpiece")):
        np.testing.assert_array_equal(mine.offsets, yours)


def test_special_tokens_length_and_sides_are_the_family_s(pair):
    kind, ours, theirs, _ = pair
    if kind.startswith("xlnet"):
        names = "<pad> <unk> <cls> <sep> <mask>"
    elif kind == "byte_level":
        names = "<pad> <unk> <s> </s> <mask>"
    elif kind == "mpnet":
        names = "<pad> [UNK] <s> </s> <mask>"
    else:
        names = "[PAD] [UNK] [CLS] [SEP] [MASK]"
    roles = ("pad", "unk", "cls", "sep", "mask")
    assert [getattr(theirs, f"{role}_token") for role in roles] == names.split()
    assert theirs.pad_token_id == tokenize.pad_id(ours)
    assert theirs.padding_side == ("left" if kind.startswith("xlnet") else "right")
    if kind.startswith(("xlnet", "deberta")):
        assert theirs.model_max_length > 1e9  # relative positions have no end
    else:
        assert theirs.model_max_length == 512
    assert len(theirs) == ours.get_vocab_size()


def test_a_padded_batch_has_what_the_model_takes(pair):
    kind, _, theirs, folder = pair
    batch = theirs(["the cat", "the"], ["a", "world world"], padding=True)
    expected = {"input_ids", "attention_mask"}
    assert set(batch) == (
        expected if kind in ("byte_level", "mpnet") else expected | {"token_type_ids"}
    )
    torch = pytest.importorskip("torch")
    model = transformers.AutoModelForTokenClassification.from_pretrained(folder)
    inputs = {name: torch.tensor(values) for name, values in batch.items()}
    assert model(**inputs).logits.isfinite().all()


def test_masks_and_marks_of_the_text_are_kept_apart(pair):
    """A special token in the text, with and without spaces."""
    _, ours, theirs, _ = pair
    mask = theirs.mask_token
    for text in (f"the {mask} cat", f"the{mask}cat", f" {mask} {mask}"):
        (mine,) = tokenize.encode_texts(ours, [text])
        assert mine.ids.tolist() == theirs(text)["input_ids"]
        assert theirs.mask_token_id in mine.ids


def test_what_stands_in_the_settings(tmp_path):
    """For version 4 too, which would undo an unnamed prefix space."""
    tokenizer = made.read("byte_level", tmp_path, words=True)
    write_tokenizer(tmp_path, tokenizer, encoder_for("byte_level", 320))
    settings = json.loads((tmp_path / "tokenizer_config.json").read_text("utf-8"))
    assert settings == {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_input_names": ["input_ids", "attention_mask"],
        "padding_side": "right",
        "clean_up_tokenization_spaces": False,
        "bos_token": "<s>",
        "eos_token": "</s>",
        "pad_token": "<pad>",
        "unk_token": "<unk>",
        "cls_token": "<s>",
        "sep_token": "</s>",
        "mask_token": "<mask>",
        "add_prefix_space": True,
        "model_max_length": 512,
    }


@pytest.mark.parametrize(("pad", "token"), [(1, "<|end_of_text|>"), (3, None)])
def test_eurobert_pads_by_a_special_piece_alone(pad, token, tmp_path):
    """Named as padding, a piece of words would no longer be one."""
    special = ["<|begin_of_text|>", "<|end_of_text|>", "<|mask|>"]
    vocabulary = {piece: n for n, piece in enumerate([*special, "a", "b"])}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.add_special_tokens(special)
    encoder = encoder_of("eurobert", 8, 8, heads=2, depth=1, vocab=5, pad_token_id=pad)
    write_tokenizer(tmp_path, tokenizer, encoder)
    opened = transformers.AutoTokenizer.from_pretrained(tmp_path)
    roles = opened.bos_token, opened.eos_token, opened.mask_token
    assert (*roles, opened.pad_token) == (*special, token)
