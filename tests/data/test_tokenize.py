"""Tokenizers: learning is deterministic; reading adds no padding or truncation."""

import itertools
import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
import transformers
from tokenizers import normalizers

from dicejax.data import tokenize
from dicejax.data.synthetic import SyntheticNER
from dicejax.errors import InputError

from . import made


def tokens(tokenizer, encoded):
    return [tokenizer.id_to_token(number) for number in encoded.ids.tolist()]


def test_learning_is_deterministic():
    corpus = SyntheticNER(train=300, dev=1, test=1).load()
    words = [word for s in corpus.train for word in s.words]
    learnt = {tokenize.learn_wordpiece(words, 400).to_str() for _ in range(3)}
    assert len(learnt) == 1


def test_a_learnt_tokenizer_frames_a_sentence_and_maps_pieces_to_words():
    tokenizer = tokenize.learn_wordpiece(["ab", "abc", "x"] * 5, 30)
    (encoded,) = tokenize.encode(tokenizer, [["abc", "x", "q"]])
    assert tokens(tokenizer, encoded) == ["[CLS]", "abc", "x", "[UNK]", "[SEP]"]
    assert encoded.words.tolist() == [-1, 0, 1, 2, -1]
    assert encoded.special.tolist() == [True, False, False, False, True]
    assert tokenize.pad_id(tokenizer) == 0


def test_real_tokenizer_files_ask_for_padding_which_is_switched_off(minilm):
    tokenizer = tokenize.read(minilm)
    short, long = tokenize.encode(tokenizer, [["Hello"], ["word"] * 300])
    assert tokens(tokenizer, short) == ["[CLS]", "hello", "[SEP]"]
    assert len(long) == 302


def test_vocab_txt_alone_gives_the_same_pieces(minilm, tmp_path):
    for name in ("vocab.txt", "config.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((minilm / name).read_bytes())
    words = [["Zürich", "isn't", "unbelievably", "东京", "far", "\u0301", "[SEP]"]]
    (a,) = tokenize.encode(tokenize.read(minilm), words)
    (b,) = tokenize.encode(tokenize.read(tmp_path), words)
    for name in ("ids", "words", "offsets"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


def test_the_templates_of_the_families(tmp_path):
    """As the authors' code frames one text and two, with token types."""
    expected = {
        "wordpiece": ("[CLS] a [SEP] b [SEP]", "00011", "[CLS] a [SEP]"),
        "xlnet": ("▁ a <sep> ▁ b <sep> <cls>", "0001112", "▁ a <sep> <cls>"),
        "byte_level": ("<s> a </s> </s> b </s>", "000000", "<s> a </s>"),
        "deberta": ("[CLS] ▁ a [SEP] ▁ b [SEP]", "0000111", "[CLS] ▁ a [SEP]"),
        "mpnet": ("<s> a </s> </s> b </s>", "000000", "<s> a </s>"),
    }
    for kind, (pair, types, single) in expected.items():
        tokenizer = made.read(kind, tmp_path, words=False)
        (two,) = tokenize.encode_texts(tokenizer, ["a"], ["b"])
        (e,) = tokenize.encode_texts(tokenizer, ["a"])
        assert " ".join(tokens(tokenizer, two)) == pair
        assert "".join(map(str, two.token_types.tolist())) == types
        assert " ".join(tokens(tokenizer, e)) == single
        assert e.token_types[:-1].tolist() == [0] * (len(e) - 1)
        assert e.token_types[-1] == (2 if kind == "xlnet" else 0)
        plain = [token in ("▁", "a", "b") for token in tokens(tokenizer, two)]
        assert (~two.special).tolist() == plain
    pads = [made.read(k, tmp_path, words=False) for k in expected]
    assert [tokenize.pad_id(tokenizer) for tokenizer in pads] == [0, 5, 1, 0, 1]


def test_case_is_what_the_settings_say_or_else_the_entries(tmp_path):
    def normal(kind, **settings):
        folder = made.pieces(kind, tmp_path / kind)
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
        return tokenize.read(folder).normalizer.normalize_str("Ça 東京")

    assert normal("wordpiece") == "Ça  東  京 "
    assert normal("wordpiece_uncased") == "ca  東  京 "
    assert normal("wordpiece", do_lower_case=True) == "ca  東  京 "
    assert normal("wordpiece_uncased", do_lower_case=False) == "Ça  東  京 "
    assert normal("wordpiece_uncased", strip_accents=False) == "ça  東  京 "
    assert normal("wordpiece", tokenize_chinese_chars=False) == "Ça 東京"


def with_settings(folder, **settings):
    """Write BERT's `tokenizer.json`, uncased, and settings of the tokenizer."""
    words = ["Müller", "müller", "Muller", "muller", "NATO", "nato", "中文"]
    learnt = tokenize.learn_wordpiece(words, 200)
    learnt.normalizer = normalizers.BertNormalizer(lowercase=True)
    learnt.save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text('{"model_type": "bert"}')
    content = {"tokenizer_class": "BertTokenizer", **settings}
    (folder / "tokenizer_config.json").write_text(json.dumps(content))
    return folder


@pytest.mark.parametrize(
    ("settings", "pieces"),
    [
        ({}, "muller nato 中 文"),
        ({"do_lower_case": True}, "muller nato 中 文"),
        ({"do_lower_case": False}, "Müller NATO 中 文"),
        ({"do_lower_case": True, "strip_accents": False}, "müller nato 中 文"),
        (
            {"do_lower_case": True, "tokenize_chinese_chars": False},
            "muller nato 中 ##文",
        ),
        ({"tokenizer_class": "PreTrainedTokenizerFast"}, "muller nato 中 文"),
    ],
)
def test_settings_count_as_in_transformers(tmp_path, settings, pieces):
    """Ids, offsets and words are those of AutoTokenizer, whatever tokenizer.json says.

    In transformers #2917 and #6680 a tokenizer left the settings of its folder out.
    """
    folder = with_settings(tmp_path, **settings)
    tokenizer = tokenize.read(folder)
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    text = "Müller NATO 中文"
    (result,) = tokenize.encode_texts(tokenizer, [text])
    assert " ".join(tokens(tokenizer, result)[1:-1]) == pieces
    expected = theirs(text, return_offsets_mapping=True)
    assert result.ids.tolist() == expected["input_ids"]
    assert result.offsets.tolist() == [list(o) for o in expected["offset_mapping"]]
    (result,) = tokenize.encode(tokenizer, [text.split()])
    expected = theirs(text.split(), is_split_into_words=True)
    assert result.ids.tolist() == expected["input_ids"]
    words = [-1 if word is None else word for word in expected.word_ids()]
    assert result.words.tolist() == words


def test_a_cased_file_is_not_lowered_by_silent_settings(tmp_path):
    folder = with_settings(tmp_path)
    content = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    for normalizer in (content["normalizer"] | {"lowercase": False}, None):
        content["normalizer"] = normalizer
        (folder / "tokenizer.json").write_text(json.dumps(content))
        assert tokenize.read(folder).normalizer.normalize_str("NATO") == "NATO"


def test_a_class_that_does_not_fit_the_file_is_refused(tmp_path):
    folder = with_settings(tmp_path, tokenizer_class="RobertaTokenizer")
    fails(folder, "tokenizer.json is WordPiece, RobertaTokenizer is BPE")
    folder = with_settings(tmp_path, tokenizer_class="PhobertTokenizer")
    fails(folder, "tokenizer_class is PhobertTokenizer, which has no fast form")
    (folder / "tokenizer.json").unlink()
    with_settings(tmp_path, tokenizer_class=["BertTokenizer"])
    fails(folder, "tokenizer_class or model_type is ['BertTokenizer']")
    with_settings(tmp_path)
    (folder / "tokenizer.json").unlink()
    fails(folder, "BertTokenizer needs vocab.txt or tokenizer.json")


def test_settings_name_no_other_file_and_no_object(tmp_path):
    """What a folder's settings could name elsewhere is not passed to transformers."""
    folder, elsewhere = tmp_path / "model", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    with_settings(folder)
    expected = tokenize.read(folder).to_str()
    (elsewhere / "tokenizer.1.0.json").write_text("{")
    path = "../elsewhere/tokenizer.1.0.json"
    hostile = {
        "auto_map": {"AutoTokenizer": ["theirs.Tokenizer", "theirs.Tokenizer"]},
        "trust_remote_code": True,
        "init_inputs": [{"[UNK]": 0}],
        "tokenizer_object": "x",
        "post_processor": "x",
        "fast_tokenizer_files": [path],
        "gguf_file": path,
        "vocab_file": path,
        "tokenizer_file": path,
    }
    for name, value in hostile.items():
        with_settings(folder, **{name: value})
        (folder / "special_tokens_map.json").write_text(json.dumps({name: value}))
        assert tokenize.read(folder).to_str() == expected


def test_reading_a_folder_does_not_import_pytorch(tmp_path):
    """And importing dicejax does not import transformers, which takes a second."""
    others = (made.pieces(kind, tmp_path / kind) for kind in made.KINDS)
    folders = [with_settings(tmp_path), *others]
    code = (
        "import pathlib, sys; import dicejax.training.train;"
        "from dicejax.data import tokenize; before = 'transformers' in sys.modules\n"
        "for x in sys.argv[1:]: tokenize.read(pathlib.Path(x));"
        "print(before, 'transformers' in sys.modules, 'torch' in sys.modules)"
    )
    command = [sys.executable, "-c", code, *map(str, folders)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("False True False\n" * len(folders), "")


def test_renamed_special_tokens_are_followed(tmp_path):
    folder = made.pieces("wordpiece", tmp_path)
    text = (folder / "vocab.txt").read_text("utf-8")
    text = text.replace("[CLS]", "<s>").replace("[SEP]", "</s>")
    (folder / "vocab.txt").write_text(text.replace("\n", "\r\n"), "utf-8")
    with pytest.raises(InputError, match=r"vocab.txt lacks \[CLS\], \[SEP\]"):
        tokenize.read(folder)
    settings = {"cls_token": "<s>", "sep_token": {"content": "</s>"}}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    tokenizer = tokenize.read(folder)
    (encoded,) = tokenize.encode(tokenizer, [["the", "</s>"]])
    assert tokens(tokenizer, encoded) == ["<s>", "the", "</s>", "</s>"]
    assert encoded.special.tolist() == [True, False, False, True]


def test_all_words_of_byte_level_bpe_follow_a_space(tmp_path):
    folder = made.pieces("byte_level", tmp_path)
    bare, spaced = tokenize.read(folder, words=False), tokenize.read(folder)
    (words,) = tokenize.encode(spaced, [["the", "cat"]])
    (text,) = tokenize.encode_texts(spaced, ["the cat"])
    np.testing.assert_array_equal(words.ids, text.ids)
    assert spaced.decode(words.ids.tolist(), skip_special_tokens=True) == " the cat"
    (first,) = tokenize.encode_texts(bare, ["the cat"])
    assert bare.decode(first.ids.tolist(), skip_special_tokens=True) == "the cat"
    for folder in (tmp_path / "one", tmp_path / "two"):  # the same from tokenizer.json
        folder.mkdir()
        bare.save(str(folder / "tokenizer.json"))
        (again,) = tokenize.encode(tokenize.read(folder), [["the", "cat"]])
        np.testing.assert_array_equal(again.ids, words.ids)


@pytest.mark.parametrize("kind", made.KINDS)
def test_a_pair_is_cut_in_its_second_text_or_in_the_longer(kind, tmp_path):
    """One piece after another at the end; of equally long texts from the second."""
    tokenizer = made.read(kind, tmp_path, words=False)
    texts = ["the cat costs 1,000", "a world"]
    for pair, longer_first in itertools.product((texts, texts[::-1]), (False, True)):
        (whole,) = tokenize.encode_texts(tokenizer, pair[:1], pair[1:])
        places = [np.flatnonzero(whole.texts == text).tolist() for text in (-1, 0, 1)]
        special, first, second = places
        least = len(special) + (0 if longer_first else len(first))
        for length in range(len(whole) + 1, least - 1, -1):
            cut = whole.truncate(length, longer_first=longer_first)
            retained = sorted(special + first + second)
            for name in ("ids", "texts", "offsets"):
                expected = getattr(whole, name)[retained]
                np.testing.assert_array_equal(getattr(cut, name), expected)
            if length <= len(whole) and first + second:
                longer = longer_first and len(first) > len(second)
                (first if longer else second or [0]).pop()
        with pytest.raises(ValueError, match="leave no room"):
            whole.truncate(least - 1, longer_first=longer_first)


def fails(folder, *parts):
    with pytest.raises(InputError, match="no usable tokenizer") as caught:
        tokenize.read(folder)
    message = str(caught.value)
    assert message.startswith(str(folder)) and "\n" not in message
    for part in parts:
        assert part in message


def test_a_folder_without_tokenizer_is_refused(tmp_path):
    fails(tmp_path, "none of tokenizer.json, vocab.txt, spiece.model, spm.model, vocab")
    fails(tmp_path / "nowhere", "No such file")
    (tmp_path / "vocab.json").write_text("{}")
    fails(tmp_path, "vocab.json alone cannot be read", "save_pretrained")
    (tmp_path / "sentencepiece.bpe.model").write_bytes(b"x")
    fails(tmp_path, "sentencepiece.bpe.model, vocab.json alone")


def test_damaged_files_are_named(tmp_path):
    (tmp_path / "tokenizer.json").write_text("{")
    fails(tmp_path, "tokenizer.json: ", "fetch it again")
    (tmp_path / "tokenizer.json").unlink()
    (tmp_path / "vocab.txt").write_bytes("[UNK]\nZürich\n".encode("latin-1"))
    fails(tmp_path, "vocab.txt:2: byte 7 (0xfc) is not UTF-8")
    (tmp_path / "vocab.txt").write_text("[UNK]\n[CLS]\n")
    fails(tmp_path, "vocab.txt lacks [SEP]")
    (tmp_path / "tokenizer_config.json").write_text("[]")
    fails(tmp_path, "tokenizer_config.json holds no JSON object")
    (tmp_path / "tokenizer_config.json").write_text("{oops")
    fails(tmp_path, "tokenizer_config.json:1: not JSON")
    shutil.rmtree(tmp_path)
    folder = made.pieces("byte_level", tmp_path)
    (folder / "merges.txt").write_text("#version: 0.2\na b c d\n")
    fails(folder, "vocab.json with merges.txt")
    made.pieces("byte_level", folder)
    (folder / "vocab.json").write_text('{"<s>": 0}')
    (folder / "merges.txt").write_text("#version: 0.2\n")
    fails(folder, "vocab.json lacks <unk>, </s>")


def test_other_sentencepiece_models_are_refused(tmp_path):
    file = made.pieces("xlnet", tmp_path) / "spiece.model"
    whole = file.read_bytes()
    for damaged in (whole[:-3], b"", b"text", whole[1:], b"\x0a\x02\x08\x01"):
        file.write_bytes(damaged)
        fails(tmp_path, "spiece.model is not a SentencePiece model, or is damaged")
    model = made.sentencepiece_model()
    model.trainer_spec.model_type = 2
    file.write_bytes(model.SerializeToString())
    fails(tmp_path, "not of the unigram kind")
    model.trainer_spec.model_type = 1
    model.pieces[3].piece = "[CLS]"
    file.write_bytes(model.SerializeToString())
    fails(tmp_path, "spiece.model lacks <cls>")
    file.rename(tmp_path / "spm.model")
    fails(tmp_path, "spm.model lacks [UNK], [SEP]")


def test_a_tokenizer_fits_its_encoder_or_is_refused(tmp_path):
    tokenizer = tokenize.learn_wordpiece(["ab", "c"], 30)
    size = tokenizer.get_vocab_size()
    assert tokenize.check_fits(tokenizer, size, tmp_path) == []
    assert tokenize.check_fits(tokenizer, size + 100, tmp_path) == []
    with pytest.raises(InputError) as caught:
        tokenize.check_fits(tokenizer, size - 2, tmp_path)
    assert str(caught.value) == (
        f"{tmp_path}: the tokenizer has {size} entries, the encoder {size - 2}: they "
        f"do not belong together (2 of the entries have no embedding, the last is "
        f"'ab', id {size - 1}); take both from one model"
    )
    (warning,) = tokenize.check_fits(tokenizer, size + 1500, tmp_path)
    assert f"has {size} entries, the encoder {size + 1500}: make sure" in warning


def test_ids_beyond_the_table_are_found_though_entries_are_few(tmp_path):
    folder = made.pieces("wordpiece", tmp_path)
    content = json.loads(tokenize.read(folder).to_str())
    size = len(content["model"]["vocab"])
    content["model"]["vocab"]["the"] = size + 2
    (folder / "tokenizer.json").write_text(json.dumps(content))
    tokenizer = tokenize.read(folder)
    with pytest.raises(InputError, match=f"the last is 'the', id {size + 2}"):
        tokenize.check_fits(tokenizer, size, tmp_path)


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_special_tokens_that_a_vocabulary_lacks_are_not_added(kind, tmp_path):
    entries = ["<s>", "</s>", "<unk>", "[UNK]", "[CLS]", "[SEP]", "a", "n", "an"]
    (tmp_path / "config.json").write_text(json.dumps({"model_type": kind}))
    if kind == "bert":
        (tmp_path / "vocab.txt").write_text("\n".join(entries))
    else:
        numbers = {entry: number for number, entry in enumerate(entries)}
        (tmp_path / "vocab.json").write_text(json.dumps(numbers))
        (tmp_path / "merges.txt").write_text("#version: 0.2\na n\n")
    tokenizer = tokenize.read(tmp_path)
    assert tokenizer.get_vocab_size() == len(entries)
    assert tokenize.check_fits(tokenizer, len(entries), tmp_path) == []
