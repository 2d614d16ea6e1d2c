"""Byte-level BPE in tokenizer.json, as ModernBERT has it, vs. transformers."""

import json

import numpy as np
import pytest
import transformers
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from dicejax.data import tokenize

from . import made


@pytest.fixture(scope="module")
def texts(data_folder):
    content = json.loads((data_folder / "squad_v1.1" / "dev.json").read_text("utf-8"))
    paragraphs = [p for article in content["data"] for p in article["paragraphs"]]
    questions = [qa["question"] for p in paragraphs for qa in p["qas"]]
    result = [*made.TEXTS, *(p["context"] for p in paragraphs[::5]), *questions]
    assert len(result) > 10_000
    return result


@pytest.fixture(scope="module")
def folder(texts, tmp_path_factory):
    """Write a tokenizer.json with ModernBERT's steps, its pieces learnt here."""
    special = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"]
    learnt = Tokenizer(models.BPE())
    learnt.normalizer = normalizers.NFC()
    learnt.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    learnt.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=2000,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    learnt.train_from_iterator(texts[:1000], trainer)
    learnt.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B [SEP]",
        special_tokens=[(name, special.index(name)) for name in ("[CLS]", "[SEP]")],
    )
    path = tmp_path_factory.mktemp("modernbert")
    learnt.save(str(path / "tokenizer.json"))
    return path


def of_transformers(folder, **settings):
    return transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "tokenizer.json"), **settings
    )


def test_texts_are_split_as_transformers_does(folder, texts):
    """Its offsets take in the space in front of a word, ours are the word's.

    Those of the texts that are hard to split differ inside a character: ours keep
    characters whole.
    """
    expected = of_transformers(folder)(texts, return_offsets_mapping=True)
    result = tokenize.encode_texts(tokenize.read(folder, words=False), texts)
    for number, (text, encoded) in enumerate(zip(texts, result, strict=True)):
        assert encoded.ids.tolist() == expected["input_ids"][number], text
        if text in made.TEXTS or not text.isascii():
            continue
        places = [
            made.trimmed(text, *pair) for pair in expected["offset_mapping"][number]
        ]
        real = ~encoded.special
        theirs = np.array(places)[real]
        whole = theirs[:, 0] < theirs[:, 1]
        np.testing.assert_array_equal(encoded.offsets[real][whole], theirs[whole])


def test_words_follow_a_space_as_in_pretraining(folder, texts):
    """ModernBERT #149: words without their space are pieces that it rarely saw.

    Of words split beforehand, transformers puts a space in front of none here: F1 of
    tagging was 95.20 so, and 96.24 with it. The first word takes one too, since the
    words of a sentence do not tell whether it begins a text; that of a raw text, whose
    characters say so, takes none.
    """
    sentences = [text.split() for text in texts if text.split()][:2000]
    result = tokenize.encode(tokenize.read(folder), sentences)
    spaced = of_transformers(folder)
    with_space = pre_tokenizers.ByteLevel(add_prefix_space=True)
    spaced.backend_tokenizer.pre_tokenizer = with_space
    expected = spaced(sentences, is_split_into_words=True)["input_ids"]
    assert [e.ids.tolist() for e in result] == expected
    (bare,) = of_transformers(folder)([["the", "city"]], is_split_into_words=True)[
        "input_ids"
    ]
    (with_spaces,) = tokenize.encode(tokenize.read(folder), [["the", "city"]])
    assert with_spaces.ids.tolist() != bare
    tokenizer = tokenize.read(folder)
    pieces = [tokenizer.id_to_token(number) for number in with_spaces.ids.tolist()]
    assert [piece for piece in pieces if piece.startswith("Ġ")] == pieces[1:-1]
    raw = tokenize.encode_texts(tokenize.read(folder, words=False), ["the city"])
    assert tokenizer.id_to_token(int(raw[0].ids[1])) == "the"


def test_words_follow_a_space_in_pieces_like_gemmas(texts, tmp_path):
    """mmBERT has Gemma 2's tokenizer: "▁" for spaces, bytes for what it never saw."""
    special = ["<pad>", "<eos>", "<bos>", "<unk>"]
    learnt = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    learnt.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    trainer = trainers.BpeTrainer(
        vocab_size=1000,
        special_tokens=special + [f"<0x{number:02X}>" for number in range(256)],
        limit_alphabet=80,
        show_progress=False,
    )
    spaced = (f"▁{word}" for text in texts[:300] for word in text.split())
    learnt.train_from_iterator(spaced, trainer)
    learnt.normalizer = normalizers.Replace(" ", "▁")
    learnt.post_processor = processors.TemplateProcessing(
        single="<bos> $A <eos>", special_tokens=[("<bos>", 2), ("<eos>", 1)]
    )
    learnt.save(str(tmp_path / "tokenizer.json"))
    sentences = [text.split() for text in texts if text.split() and "▁" not in text]
    sentences = [words for words in sentences[:1000] if "<unk>" not in words]
    result = tokenize.encode(tokenize.read(tmp_path), sentences)
    for words, encoded in zip(sentences, result, strict=True):
        assert encoded.ids.tolist() == learnt.encode(f" {' '.join(words)}").ids
        first = encoded.first_pieces(len(words))
        assert (encoded.words[first] == np.arange(len(words))).all()
        longest = [
            encoded.offsets[encoded.words == n, 1].max() for n in range(len(words))
        ]
        assert longest == [len(word) for word in words]
