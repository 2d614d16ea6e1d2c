"""Real vocabularies on real texts, vs. the authors' code."""

import collections
import json
import shutil
import types
import unicodedata

import numpy as np
import pytest
import transformers
from tokenizers import (
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers.convert_slow_tokenizer import DebertaV2Converter

from dicejax.data import tokenize

from . import made


def squad(data_folder):
    content = json.loads((data_folder / "squad_v1.1" / "dev.json").read_text("utf-8"))
    return [p for article in content["data"] for p in article["paragraphs"]]


def cluener(data_folder):
    lines = (data_folder / "cluener2020" / "dev.json").read_text("utf-8").splitlines()
    return [json.loads(line)["text"] for line in lines]


@pytest.mark.parametrize("name", made.REAL[:3])
def test_wordpiece_is_that_of_google_s_code(data_folder, name):
    """Transformers' slow tokenizer is Google's Python, but composes accents first."""
    legacy = pytest.importorskip(
        "transformers.models.bert.tokenization_bert_legacy"
    ).BertTokenizerLegacy
    folder = data_folder / "vocab" / name
    slow = legacy(folder / "vocab.txt", do_lower_case=name != "bert-base-cased")
    texts = [p["context"] for p in squad(data_folder)[::20]]
    texts += cluener(data_folder)[::5]
    texts += [unicodedata.normalize("NFC", text) for text in made.TEXTS]
    fast = tokenize.encode_texts(tokenize.read(folder, words=False), texts)
    for text, encoded in zip(texts, fast, strict=True):
        assert encoded.ids.tolist() == slow(text)["input_ids"], text


# By the sentencepiece package 0.2.3 on the released model, prepared and split behind
# digits as XLNet's prepro_utils.py does.
XLNET = [
    ("Hello, U.S. world (x) x.y!", "▁ Hello , ▁U . S . ▁world ▁ ( x ) ▁x . y !"),
    ("In 1066, about 1,000 men; 5,", "▁In ▁10 66 , ▁about ▁1,000 ▁men ; ▁5 ,"),
    ("He said ``no'' and ''yes''.", '▁He ▁said ▁ " no " ▁and ▁ " yes " .'),
    ("  Zürich\tcafe\u0301  ", "▁Zurich ▁cafe"),
    ("ﬁne １２３ ½ … Ⅷ", "▁fine ▁12 3 ▁ 1⁄2 ▁ . . . ▁VIII"),
    ('100 £ - 20 € – "quoted"', '▁100 ▁ £ ▁ - ▁20 ▁ € ▁ – ▁ " quot ed "'),
    ("İstanbul naïve façade", "▁Istanbul ▁naive ▁facade"),
]


@pytest.mark.parametrize(("text", "pieces"), XLNET)
def test_xlnet_splits_as_sentencepiece_does(data_folder, text, pieces):
    tokenizer = tokenize.read(data_folder / "vocab" / "xlnet-base-cased", words=False)
    (encoded,) = tokenize.encode_texts(tokenizer, [text])
    result = [tokenizer.id_to_token(number) for number in encoded.ids.tolist()]
    assert result == [*pieces.split(" "), "<sep>", "<cls>"]
    assert encoded.ids[-2:].tolist() == [4, 3]


def test_xlnet_on_many_texts(data_folder):
    """Without digits: the package splits commas behind them differently."""
    package = pytest.importorskip("sentencepiece")
    folder = data_folder / "vocab" / "xlnet-base-cased"
    model = package.SentencePieceProcessor(model_file=str(folder / "spiece.model"))
    texts = [p["context"] for p in squad(data_folder)] + cluener(data_folder)
    texts = [text for text in texts if not any(c.isdigit() for c in text)]
    assert len(texts) > 1000
    encodings = tokenize.encode_texts(tokenize.read(folder, words=False), texts)
    for text, encoded in zip(texts, encodings, strict=True):
        plain = " ".join(text.split()).replace("``", '"').replace("''", '"')
        plain = unicodedata.normalize("NFKD", plain)
        plain = "".join(c for c in plain if not unicodedata.combining(c))
        assert encoded.ids[~encoded.special].tolist() == model.encode(plain), text


@pytest.fixture(scope="module")
def texts(data_folder, request):
    """Return paragraphs, then other texts: each fifth of 10,000 and all made ones.

    With --exhaustive all of them.
    """
    paragraphs = squad(data_folder)
    questions = [qa["question"] for p in paragraphs for qa in p["qas"]][:7000]
    result = [p["context"] for p in paragraphs] + cluener(data_folder) + questions
    assert len(result) > 10_000
    thinned = result if request.config.getoption("exhaustive") else result[::5]
    return thinned + list(filter(None, made.TEXTS[:-3]))


@pytest.fixture(scope="module")
def deberta(texts, tmp_path_factory):
    """Return a folder as those of DeBERTa."""
    folder = tmp_path_factory.mktemp("deberta")
    learnt = made.trained_sentencepiece(texts[:400], 1000)  # paragraphs
    (folder / "spm.model").write_bytes(learnt)
    settings = {"do_lower_case": False, "vocab_type": "spm"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


@pytest.fixture(scope="module")
def modernbert(texts, tmp_path_factory):
    """Return a folder with ModernBERT's steps in tokenizer.json, its pieces learnt."""
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
    learnt.train_from_iterator(texts[:400], trainer)
    learnt.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B [SEP]",
        special_tokens=[(name, special.index(name)) for name in ("[CLS]", "[SEP]")],
    )
    path = tmp_path_factory.mktemp("modernbert")
    learnt.save(str(path / "tokenizer.json"))
    return path


def test_deberta_splits_as_sentencepiece_does(deberta, texts):
    folder = deberta
    package = pytest.importorskip("sentencepiece")
    model = package.SentencePieceProcessor(model_file=str(folder / "spm.model"))
    tokenizer = tokenize.read(folder, words=False)
    assert tokenizer.token_to_id("[MASK]") == model.vocab_size()  # not in the file
    different = []
    encodings = tokenize.encode_texts(tokenizer, texts)
    for text, encoded in zip(texts, encodings, strict=True):
        assert encoded.ids[[0, -1]].tolist() == [1, 2]
        if encoded.ids[1:-1].tolist() != model.encode(text):
            different.append(text)
    # It takes a line end for a letter.
    assert all("\x85" in text for text in different)


def test_deberta_has_the_ids_and_offsets_of_transformers(deberta, texts):
    """By version 4's converter; version 5 has NFC for the file's normalization."""
    folder = deberta
    five = transformers.DebertaV2TokenizerFast.from_pretrained(folder)
    slow = types.SimpleNamespace(
        vocab_file=str(folder / "spm.model"),
        do_lower_case=False,
        split_by_punct=False,
        add_prefix_space=True,
        convert_tokens_to_ids=five.convert_tokens_to_ids,
    )
    four = DebertaV2Converter(slow).converted().encode_batch(texts)
    ours = tokenize.encode_texts(tokenize.read(folder, words=False), texts)
    counts = collections.Counter()
    for text, mine, old, new in zip(
        texts, ours, four, five(texts).encodings, strict=True
    ):
        kinds = {unicodedata.category(c) for c in text} | {"▁"} & set(text)
        controls = bool({"Cc", "Cf", "▁"} & kinds)  # not all of them dropped there
        folded = unicodedata.normalize("NFKC", text) != text
        same_four, same_five = (mine.ids.tolist() == e.ids for e in (old, new))
        assert same_four or controls, text
        assert same_five or controls or folded, text
        counts.update(four=same_four, five=same_five)
        if same_four and not ({"Cf", "Mn", "▁"} & kinds):  # marks stay with letters
            counts["offsets"] += 1
            for (start, end), theirs in zip(
                mine.offsets.tolist(), old.offsets, strict=True
            ):
                # Theirs have the space before a word, which may be all of "▁".
                expected = theirs[1] - len(text[slice(*theirs)].lstrip()), theirs[1]
                assert start == end or (start, end) == expected, text
    assert counts["four"] >= len(texts) - 3
    assert min(counts.values()) > 0.87 * len(texts)


TYPES = {
    "minilm": "bert",
    "bert-base-cased": "bert",
    "byte_level": "roberta",
    "xlnet": "xlnet",
    "deberta": "deberta-v2",
    "modernbert": "modernbert",
    "mpnet": "mpnet",
}


@pytest.fixture(params=TYPES)
def typed(request, tmp_path):
    """Return a folder with a model type, of which AutoTokenizer makes a class."""
    if request.param == "minilm":
        return request.getfixturevalue("minilm")
    folder = tmp_path / "model"
    if request.param in made.KINDS:
        made.pieces(request.param, folder)
    elif request.param == "modernbert":
        shutil.copytree(request.getfixturevalue("modernbert"), folder)
    else:
        data = request.getfixturevalue("data_folder")
        shutil.copytree(data / "vocab" / request.param, folder)
    settings = {"do_lower_case": False}
    if request.param in ("xlnet", "deberta"):  # AutoTokenizer folds less of the model
        tokenize.read(folder, words=False).save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text(
        json.dumps({"model_type": TYPES[request.param]})
    )
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def test_a_model_type_s_class_is_that_of_autotokenizer(typed, texts):
    """Ids of all texts; offsets of those in ASCII, without the space in front."""
    auto = transformers.AutoTokenizer.from_pretrained(typed)
    expected = auto(texts, return_offsets_mapping=True)
    result = tokenize.encode_texts(tokenize.read(typed, words=False), texts)
    compared = 0
    for number, (text, encoded) in enumerate(zip(texts, result, strict=True)):
        assert encoded.ids.tolist() == expected["input_ids"][number], text
        mended = not text.isascii() or "''" in text or "``" in text
        if mended or text in made.TEXTS:
            continue
        theirs = [made.trimmed(text, *o) for o in expected["offset_mapping"][number]]
        solid = encoded.offsets[:, 0] < encoded.offsets[:, 1]
        np.testing.assert_array_equal(encoded.offsets[solid], np.array(theirs)[solid])
        compared += 1
    assert compared > 0.48 * len(texts)


def test_every_answer_of_squad_comes_back(data_folder):
    folder = data_folder / "vocab" / "bert-base-uncased"
    tokenizer = tokenize.read(folder, words=False)
    paragraphs = squad(data_folder)
    contexts = [p["context"] for p in paragraphs]
    encodings = tokenize.encode_texts(tokenizer, ["Who?"] * len(contexts), contexts)
    exact = total = 0
    for paragraph, encoded in zip(paragraphs, encodings, strict=True):
        context = paragraph["context"]
        starts, ends = encoded.offsets[encoded.texts == 1].T
        for answer in (a for qa in paragraph["qas"] for a in qa["answers"]):
            text = answer["text"].strip()  # a few answers begin with a space
            start = context.index(text, answer["answer_start"])
            end = start + len(text)
            back = encoded.span(*encoded.pieces(start, end, text=1))
            assert back[0] <= start and end <= back[1]
            astride = [(starts < edge) & (edge < ends) for edge in (start, end)]
            assert (context[slice(*back)] == text) == (not np.any(astride))
            exact += context[slice(*back)] == text
            total += 1
    assert total == 34726
    assert exact > 0.997 * total  # the others begin or end inside a piece


def test_chinese_in_a_longer_word_is_split_but_latin_is_not(data_folder):
    tokenizer = tokenize.read(data_folder / "vocab" / "bert-base-chinese")
    (encoded,) = tokenize.encode(tokenizer, [["在2008年iPhone上", "　", "\x07", "北"]])
    result = [tokenizer.id_to_token(number) for number in encoded.ids.tolist()]
    assert result[1:-1] == ["在", "2008", "年", "iphone", "上", "北"]
    assert encoded.first_pieces(4).tolist() == [1, -1, -1, 6]
    assert encoded.offsets[4].tolist() == [6, 12]


def test_words_follow_a_space_as_in_pretraining(modernbert, texts):
    """ModernBERT #149: words without their space are pieces that it rarely saw.

    transformers puts no space in front of words that are split beforehand: F1 of
    tagging was 95.20 without it, and 96.24 with it. The first word takes one too, since
    the words of a sentence do not tell whether it begins a text; that of a raw text,
    whose characters say so, takes none.
    """
    sentences = [text.split() for text in texts if text.split()][:2000]
    result = tokenize.encode(tokenize.read(modernbert), sentences)
    file = str(modernbert / "tokenizer.json")
    plain, spaced = (
        transformers.PreTrainedTokenizerFast(tokenizer_file=file) for _ in range(2)
    )
    with_space = pre_tokenizers.ByteLevel(add_prefix_space=True)
    spaced.backend_tokenizer.pre_tokenizer = with_space
    expected = spaced(sentences, is_split_into_words=True)["input_ids"]
    assert [e.ids.tolist() for e in result] == expected
    (bare,) = plain([["the", "city"]], is_split_into_words=True)["input_ids"]
    (with_spaces,) = tokenize.encode(tokenize.read(modernbert), [["the", "city"]])
    assert with_spaces.ids.tolist() != bare
    tokenizer = tokenize.read(modernbert)
    pieces = [tokenizer.id_to_token(number) for number in with_spaces.ids.tolist()]
    assert [piece for piece in pieces if piece.startswith("Ġ")] == pieces[1:-1]
    raw = tokenize.encode_texts(tokenize.read(modernbert, words=False), ["the city"])
    assert tokenizer.id_to_token(int(raw[0].ids[1])) == "the"


def check_words(learnt, words, encoded):
    """Check pieces of words as those of a text, and that each word is all covered."""
    assert encoded.ids.tolist() == learnt.encode(f" {' '.join(words)}").ids
    first = encoded.first_pieces(len(words))
    assert (encoded.words[first] == np.arange(len(words))).all()
    longest = [encoded.offsets[encoded.words == n, 1].max() for n in range(len(words))]
    assert longest == [len(word) for word in words]


def test_only_the_start_of_a_word_follows_a_space_in_pieces_like_llamas(
    texts, tmp_path
):
    """EuroBERT has Llama 3's tokenizer: words are cut in front of the step of bytes."""
    learnt = Tokenizer(models.BPE())
    parts = Regex(r" ?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+|\s+")
    of_bytes = {"add_prefix_space": False, "use_regex": False}
    learnt.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(parts, "isolated"),
            pre_tokenizers.ByteLevel(**of_bytes),
        ]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=1000,
        special_tokens=["<|begin_of_text|>", "<|end_of_text|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    learnt.train_from_iterator(texts[:300], trainer)
    learnt.post_processor = processors.Sequence(
        [
            processors.ByteLevel(**of_bytes),
            processors.TemplateProcessing(
                single="<|begin_of_text|> $A",
                special_tokens=[("<|begin_of_text|>", 0)],
            ),
        ]
    )
    learnt.save(str(tmp_path / "tokenizer.json"))
    sentences = [text.split() for text in texts if text.split()][:1000]
    assert any("'s" in word for words in sentences for word in words)
    result = tokenize.encode(tokenize.read(tmp_path), sentences)
    for words, encoded in zip(sentences, result, strict=True):
        check_words(learnt, words, encoded)


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
        check_words(learnt, words, encoded)
