"""`dicejax init` profiles data and writes an experiment file that loads."""

import gzip
import json
import re

import jax
import numpy as np
import pytest

from dicejax import config
from dicejax.cli import run
from dicejax.formats import ConllFiles, JsonSentences, TextFiles
from dicejax.init import starter
from dicejax.objectives import (
    Asymmetric,
    CrossEntropy,
    DistributionBalanced,
    Focal,
    FromPrior,
    SelfAdjustingDice,
)
from dicejax.optimizers import AdamW
from dicejax.tasks import (
    Classification,
    MultiLabelClassification,
    QuestionAnswering,
    Tagging,
    WordTagging,
)
from dicejax.training.setup import prepare

from ..conftest import SMALL_MODEL
from ..formats.writers import csv_text, json_lines
from ..small_project import CORPUS, fails


def command(folder, kind, data, *words):
    return ["init", kind, str(folder), "--data", str(data), *words]


def begun(folder, kind, data, *words):
    assert run(command(folder, kind, data, *words)) == 0
    return config.load(folder / "experiment.py")


def write_lines(path, records):
    path.parent.mkdir(exist_ok=True)
    path.write_text(json_lines(records))
    return path


def imbalance(sentences):
    """Tokens outside and inside of entities."""
    inside = sum(e.end - e.start for s in sentences for e in s.spans)
    return sum(len(s.words) for s in sentences) - inside, inside


@pytest.fixture
def conll(tmp_path):
    file = tmp_path / "my.conll"
    # An O token in between, so that outside tokens outnumber inside ones.
    file.write_text((CORPUS + "\nthe NN O\n" * 16) * 10)
    return file


def test_one_file_is_parted_and_looked_at(tmp_path, conll):
    experiment = begun(tmp_path / "mine", "ner", conll)
    assert experiment.name == "mine" and experiment.task == Tagging()
    assert experiment.encoder.path == "bert-base-cased"
    corpus = experiment.data.load()
    whole = ConllFiles(dir=str(tmp_path), train="my.conll", test=None, dev=None).load()
    total = len(whole.train) + len(whole.dev)
    for held_out in (corpus.dev, corpus.test):
        assert len(held_out) == pytest.approx(0.15 * total, abs=1)
    assert len(corpus.train) + len(corpus.dev) + len(corpus.test) == total
    lines = [{s.line for s in split} for split in (corpus.train, corpus.dev)]
    assert not lines[0] & lines[1] and not lines[0] & {s.line for s in corpus.test}
    text = (tmp_path / "mine" / "experiment.py").read_text()
    outside, inside = imbalance(corpus.train)
    assert f"O tokens per entity token ({outside:,} vs. {inside:,})" in text
    kinds = [{span.type for span in s.spans} for s in corpus.train]
    count, rarest = min((sum(k in x for x in kinds), k) for k in ("LOC", "PER"))
    others = f"{(len(kinds) - count) / count:.1f} ".replace(".0 ", " ")
    assert f"{others}sentences without {rarest!r} to one" in text
    assert f"of {len(kinds)} sentences {count} have {rarest!r}" in text
    # From some 200 updates of a pretrained encoder on, no loss is shown to be better.
    assert experiment.compared == (CrossEntropy(), FromPrior(CrossEntropy()), Focal())
    assert "First try a third and three times" in text and 'bias="prior"' in text
    assert experiment.optimizer == AdamW(learning_rate=5e-5, head_learning_rate=10.0)


def test_json_lines_of_texts_are_taken_by_their_fields(tmp_path, capsys):
    texts = [{"review": f"film {n}", "stars": 3.5} for n in range(40)]
    rows = [text | {"sentiment": n % 2} for n, text in enumerate(texts)]
    file = write_lines(tmp_path / "reviews.jsonl", rows)
    experiment = begun(tmp_path / "mine", "classification", file)
    assert experiment.data.layout == "json"
    assert (experiment.data.first, experiment.data.label) == ("review", "sentiment")
    assert {e.label for e in experiment.data.load().train} == {"0", "1"}
    message = capsys.readouterr().out
    assert (
        "a saved table. layout: json, first: review, label: sentiment\n  film "
        in message
    )
    folder = tmp_path / "folder"
    write_lines(folder / "train.json", rows)
    write_lines(folder / "test.json", texts)
    assert begun(tmp_path / "two", "classification", folder).data.test is None


def test_a_line_break_in_a_label_is_escaped_in_the_preview(tmp_path, capsys):
    rows = [{"text": f"film\n{n}", "label": f"a\nb{n % 2}"} for n in range(40)]
    file = write_lines(tmp_path / "reviews.jsonl", rows)
    begun(tmp_path / "mine", "classification", file)
    shown = capsys.readouterr().out
    assert "  film\\n" in shown and "    a\\nb" in shown
    assert not re.search("^b", shown, re.MULTILINE)


def test_json_lines_that_list_their_labels_have_several(tmp_path, capsys):
    sets = (["film", "praise"], [], ["film"])
    rows = [{"text": f"film {n}", "labels": sets[n % 3]} for n in range(40)]
    file = write_lines(tmp_path / "reviews.jsonl", rows)
    experiment = begun(tmp_path / "mine", "classification", file)
    assert experiment.task == MultiLabelClassification()
    assert experiment.data.layout == "json" and experiment.data.multi_label
    # Dice alone is 34 points behind there (docs/choosing.md).
    assert experiment.compared == (CrossEntropy(), Asymmetric(), DistributionBalanced())
    message = capsys.readouterr().out
    assert "multi_label: True" in message
    text = (tmp_path / "mine/experiment.py").read_text()
    assert " labels per text on average, 2 at most; " in text
    assert "# film " in text and "not film" not in text

    # Another field of numbers, and a test file whose labels are kept back.
    folder = tmp_path / "folder"
    rows = [{"body": f"war film {n}", "genres": [n % 3]} for n in range(30)]
    write_lines(folder / "train.jsonl", rows)
    write_lines(folder / "test.jsonl", [{"body": "a b c"}])
    words = ["--label", "genres", "--text", "body"]
    source = begun(tmp_path / "two", "classification", folder, *words).data
    assert (source.first, source.label, source.test) == ("body", "genres", None)
    assert {e.labels for e in source.load().train} == {("0",), ("1",), ("2",)}


@pytest.mark.parametrize("form", ["tokens", "entities"])
def test_json_lines_of_sentences_train(tmp_path, capsys, form):
    row = {"tokens": ["Anna", "met", "Bo"], "ner_tags": ["B-PER", "O", "B-PER"]}
    if form == "entities":
        ends = [(0, 4), (9, 11)]
        entities = [{"start": a, "end": b, "label": "PER"} for a, b in ends]
        row = {"id": 3, "text": "Anna met Bo", "entities": entities}
    file = write_lines(tmp_path / "names.json", [row] * 30)
    experiment = begun(tmp_path / "mine", "ner", file, "--encoder", "scratch")
    assert isinstance(experiment.data, JsonSentences)
    assert "  Anna met Bo\n    PER: Anna; PER: Bo\n" in capsys.readouterr().out
    assert run(["profile", str(tmp_path / "mine/experiment.py")]) == 0


@pytest.mark.parametrize(
    ("name", "separator", "header", "words"),
    [
        ("x.csv", ",", ["", "body", "topic"], []),  # pandas names no index
        ("x.tsv", "\t", ["id", "body", "topic"], []),
        ("semicolons.csv", ";", ["id", "body", "topic"], []),
        ("bare.csv.gz", ",", None, ["--text", "1", "--label", "2"]),
    ],
)
def test_a_table_is_read_whatever_its_columns_are_called(
    tmp_path, capsys, name, separator, header, words
):
    rows = [
        (n, f'it said "{n}, no",\nand left\tat; once', ["sport", "art"][n % 2])
        for n in range(40)
    ]
    written = [header, *rows] if header else rows
    text = csv_text(written, separator, end="\r\n").encode("utf-8-sig")  # as pandas
    file = tmp_path / name
    file.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    experiment = begun(tmp_path / "mine", "classification", file, *words)
    assert isinstance(experiment.data, TextFiles)
    corpus = experiment.data.load()
    result = sorted((*corpus.train, *corpus.dev, *corpus.test), key=lambda e: e.line)
    assert [(e.first, e.label) for e in result] == [row[1:] for row in rows]
    message = "1, label: 2" if words else "body, label: topic"
    output = capsys.readouterr().out
    assert f"spreadsheets and pandas write it. first: {message}" in output


def test_columns_that_cannot_be_told_are_named_by_flags(tmp_path, capsys):
    file = tmp_path / "x.csv"
    file.write_text("a,b,c,d\n" + "one two three,four five six,1,x\n" * 9)
    argv = command(tmp_path / "m", "classification", file)
    fails(
        capsys,
        argv,
        f"{file}:1: the columns 'a', 'b', 'c', 'd' do not say which is the text and "
        "which the class; say it with --text NAME and --label NAME",
    )
    fails(capsys, [*argv, "--text", "z"], "no column 'z'; name one of 'a', 'b', 'c'")
    message = "--second is not for ner"
    fails(capsys, command(tmp_path / "m", "ner", file, "--second", "c"), message)
    rows = "".join(f"one two three,four five six,{n % 2},x\n" for n in range(9))
    file.write_text("a,b,c,d\n" + rows)
    words = ["--text", "a", "--second", "b"]
    source = begun(tmp_path / "m", "classification", file, *words).data
    assert (source.first, source.second, source.label) == ("a", "b", "c")


def test_measures_are_no_classes(tmp_path, capsys):
    file = tmp_path / "x.csv"
    file.write_text("text,label\n" + "".join(f"so fine,{n}\n" for n in range(127)) * 2)
    argv = command(tmp_path / "m", "classification", file)
    message = "column 'label' has 127 different numbers (0, 1, 10, ...); give classes"
    fails(capsys, argv, f"{file}: {message}", "regression is not supported")


def test_a_format_of_another_kind_is_named(tmp_path, capsys):
    conllu = "1\tAda\t_\tNOUN\tNN\t_\t0\troot\t_\t_\n\n"
    files = {
        "ner": ("# text = Ada\n" + conllu, "is CoNLL-U; `init ner` reads a word and"),
        "classification": ("Ada B-PER\nruns O\n\n", "a word and its tag on each line"),
        "pos": ('{"tokens": ["a"]}\n', "is JSON lines; `init pos` reads a word and"),
        "qa": ("a,b\n", "is not JSON; `init qa` reads SQuAD's JSON"),
    }
    for kind, (text, message) in files.items():
        file = tmp_path / kind
        file.write_text(text * 5)
        fails(capsys, command(tmp_path / "m", kind, file), f"{file}: ", message)
    (tmp_path / "t.csv").write_text("text,label\n" + "so very fine,good\n" * 5)
    argv = command(tmp_path / "m", "ner", tmp_path / "t.csv")
    fails(capsys, argv, "is a table of columns between ','; ", "`init classification`")


def test_a_sample_is_written_and_read(tmp_path, capsys):
    mine = tmp_path / "mine"
    argv = ["init", "ner", str(mine)]
    fails(capsys, argv, "name your data with --data, or take --sample; want one")
    both = ["--sample", "--data", "x"]
    fails(capsys, [*argv, *both], "take --sample; want one")
    fails(capsys, ["init", "pos", str(mine), "--sample"], "--sample is for ner")
    assert not mine.exists()
    assert run([*argv, "--sample", "--encoder", "scratch"]) == 0
    experiment = config.load(mine / "experiment.py")
    corpus = experiment.data.load()
    splits = (corpus.train, corpus.dev, corpus.test)
    assert [len(split) for split in splits] == [2800, 600, 600]
    # No set loss from random weights.
    assert experiment.compared == (CrossEntropy(), CrossEntropy(label_smoothing=0.1))
    assert experiment.optimizer == AdamW(learning_rate=1e-3)
    # Enough updates for random weights to learn from, and the file says so.
    announced = updates_of(mine / "experiment.py")
    assert announced >= 1500 == starter.UPDATES["scratch"]
    assert announced == updates_made(experiment)
    outside, inside = imbalance(corpus.train)
    assert outside / inside == pytest.approx(8, rel=0.1)


def updates_of(file):
    """Return the number of updates that an experiment file announces."""
    return int(
        re.search(r"# about ([\d,]+) updates;", file.read_text())[1].replace(",", "")
    )


def updates_made(experiment):
    """Return the number of updates that a training makes."""
    mesh = experiment.mesh.make()
    return len(prepare(experiment, lambda note: None, weights=False).batches(mesh))


@pytest.mark.parametrize("words", [(2, 60), (3, 9), (30, 200)])
def test_the_updates_that_are_announced_are_made(tmp_path, words):
    random = np.random.default_rng(len(words))
    rows = ["text,label\n"]
    for n in range(700):
        text = " ".join(
            f"w{x}" for x in random.integers(0, 60, random.integers(*words))
        )
        rows.append(f"{text} {n},{'rare' if n % 20 == 0 else 'usual'}\n")
    (tmp_path / "all.csv").write_text("".join(rows))
    data, mine = str(tmp_path / "all.csv"), tmp_path / "mine"
    experiment = begun(mine, "classification", data, "--encoder", "scratch")
    announced = updates_of(mine / "experiment.py")
    assert announced == updates_made(experiment)


def test_few_updates_propose_the_rate_and_the_prior_before_dice(tmp_path):
    few = tmp_path / "few.conll"
    few.write_text((CORPUS + "\nthe NN O\n" * 30) * 2)
    experiment = begun(tmp_path / "few", "ner", few)
    assert experiment.training.epochs == 30  # of three updates
    dice = SelfAdjustingDice(alpha=0.01, smooth=0.01)
    from_prior = FromPrior(CrossEntropy())
    assert experiment.compared == (CrossEntropy(), from_prior, dice, Focal())
    text = (tmp_path / "few" / "experiment.py").read_text()
    assert (
        "First try three and ten times" in text
        and "few updates: raise the rate" in text
    )
    assert "# about 90 updates; a pretrained encoder needs about 200" in text


def test_a_folder_of_splits_is_found_by_their_names(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    row = "1\tAda\t_\tNOUN\tNN\t_\t0\troot\t_\t_\n"
    row += "2\truns\t_\tVERB\tVB\t_\t1\tx\t_\t_\n\n"
    names = [f"xx-ud-{split}.conllu" for split in ("train", "dev", "test")]
    for name in names:
        (data / name).write_text(row * 20)
    experiment = begun(tmp_path / "pos", "pos", data)
    assert experiment.task == WordTagging()
    source = experiment.data
    assert source.layout == "conllu"
    assert [source.train, source.dev, source.test] == names
    assert source.dev_share == 0.1 and source.test_share == 0.0


def test_columns_of_texts_are_found_and_an_unlabelled_test_is_left_out(tmp_path):
    rows = "".join(f"good {n}\t{n % 5 == 0:d}\n" for n in range(100))
    (tmp_path / "train.tsv").write_text("Sentence\tlabel\n" + rows)
    (tmp_path / "dev.tsv").write_text("Sentence\tlabel\n" + rows)
    (tmp_path / "test.tsv").write_text("index\tSentence\n0\tgood\n")
    experiment = begun(tmp_path / "texts", "classification", tmp_path)
    assert experiment.task == Classification(positive="1")
    source = experiment.data
    assert (source.first, source.second, source.label) == ("Sentence", None, "label")
    assert source.test is None and source.test_share == 0.15
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("question1\tquestion2\tclass\n" + "a\tb\t1\nc\td\t0\n" * 20)
    source = begun(tmp_path / "pairs", "classification", pairs).data
    assert (source.first, source.second) == ("question1", "question2")
    plain = tmp_path / "plain.txt"
    plain.write_text("1 fine\n0 bad\n" * 20)
    balanced = begun(tmp_path / "plain", "classification", plain)
    assert balanced.data.layout == "label-first"
    # Nothing is imbalanced there, so no such loss is proposed.
    assert balanced.compared == (CrossEntropy(), CrossEntropy(label_smoothing=0.1))


def test_reading_has_no_classes(tmp_path):
    answer = [{"text": "Ada", "answer_start": 0}]
    asked = [{"id": str(n), "question": "Who?", "answers": answer} for n in range(20)]
    paragraphs = [
        {"context": f"Ada slept {n} hours.", "qas": [e]} for n, e in enumerate(asked)
    ]
    file = write_lines(tmp_path / "x.json", [{"data": [{"paragraphs": paragraphs}]}])
    experiment = begun(tmp_path / "qa", "qa", file)
    assert isinstance(experiment.task, QuestionAnswering)
    assert experiment.compared == (CrossEntropy(), Focal())
    assert experiment.optimizer == AdamW(learning_rate=5e-5)


def test_names_are_data_and_no_code(tmp_path):
    folder = tmp_path / 'a"""\nimport os #\\'
    folder.mkdir()
    (folder / 'it\'s "mine".conll').write_text(CORPUS * 5)
    experiment = begun(folder / "mine", "ner", folder / 'it\'s "mine".conll')
    assert experiment.data.dir == str(folder)
    assert experiment.data.train == 'it\'s "mine".conll'
    text = (folder / "mine" / "experiment.py").read_text()
    assert "\nimport os" not in text


@pytest.mark.parametrize(
    ("text", "on_cpu", "on_gpu"),
    [
        ("the cat sat on a mat", "bert-base-cased", "answerdotai/ModernBERT-base"),
        ("他去台湾了", *2 * ["bert-base-chinese"]),
        ("Die Straße läuft über grüne Hügel", *2 * ["bert-base-multilingual-cased"]),
        ("кошка сидит", *2 * ["bert-base-multilingual-cased"]),
    ],
)
def test_the_encoder_is_of_the_script_and_the_device(text, on_cpu, on_gpu, monkeypatch):
    assert starter._choose_encoder([text]) == on_cpu
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert starter._choose_encoder([text]) == on_gpu


def test_bad_input_is_one_line_and_nothing_is_written(tmp_path, conll, capsys):
    mine = tmp_path / "mine"
    (tmp_path / "empty").mkdir()
    (tmp_path / "odd.tsv").write_text("a\tb\n1\t2\n")
    (tmp_path / "bad.conll").write_text("Ada X-PER B-PER\nonly\n")
    (tmp_path / "x.jsonl").write_text('{"body": \n')
    for kind, name, *messages in (
        ("ner", "none", "no such file or folder"),
        ("ner", "empty", "holds no train file"),
        ("classification", "odd.tsv", "odd.tsv:1", "do not say which"),
        ("classification", "x.jsonl", "x.jsonl:1: not JSON"),
        ("ner", "bad.conll", "bad.conll:2"),
    ):
        fails(capsys, command(mine, kind, tmp_path / name), *messages)
    assert not mine.exists()
    begun(mine, "ner", conll)
    before = (mine / "experiment.py").read_text()
    capsys.readouterr()  # what was said of the splits
    fails(capsys, command(mine, "ner", conll), "exists; name another", "--overwrite")
    assert (mine / "experiment.py").read_text() == before
    begun(mine, "ner", conll, "--overwrite", "--encoder", "scratch")
    assert "ScratchEncoder" in (mine / "experiment.py").read_text()
    assert [e.name for e in mine.iterdir()] == ["experiment.py"]


def test_the_length_is_that_of_the_longest_sequence_in_the_given_tokenizer(
    tmp_path, capsys
):
    """Train's words are short, those of test long and unknown."""
    data = tmp_path / "data"
    data.mkdir()
    words = {"train": ["a", "b", "c"] * 5, "dev": ["a"], "test": ["zyxwvu"] * 20}
    for split, text in words.items():
        rows = "".join(f"{' '.join(text)}\t{n % 2}\n" for n in range(20))
        (data / f"{split}.tsv").write_text(f"text\tlabel\n{rows}")
    letters = [*"abcdefghijklmnopqrstuvwxyz"]
    vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *letters, *(f"##{c}" for c in letters)]
    model = tmp_path / "model"
    model.mkdir()
    (model / "vocab.txt").write_text("".join(f"{piece}\n" for piece in vocab))
    settings = {"vocab_size": len(vocab), "max_position_embeddings": 512}
    (model / "config.json").write_text(json.dumps(SMALL_MODEL | settings))
    flags = ["--encoder", str(model)]
    experiment = begun(tmp_path / "mine", "classification", data, *flags)
    assert experiment.training.max_length == 128  # 6 pieces a word, [CLS] and [SEP]
    text = (tmp_path / "mine/experiment.py").read_text()
    assert "max_length=128,  # holds the longest sequence" in text
    assert experiment.encoder.path == str(model)
    rates = experiment.optimizer.learning_rate, experiment.optimizer.head_learning_rate
    assert rates == starter.SMALL_RATES and "First try half of it and twice" in text


def test_flags_that_errors_name_solve_them(tmp_path, capsys):
    rows = [{"tokens": ["Ada", "left"], "ner_tags": [1, n % 2]} for n in range(9)]
    tagged = write_lines(tmp_path / "in/tags.jsonl", rows)
    argv = command(tmp_path / "a", "ner", tagged, "--encoder", "scratch")
    assert run(argv) == 2 and "(of init: --names)" in capsys.readouterr().err
    assert run([*argv, "--names", "O", "B-PER"]) == 0
    source = config.load(tmp_path / "a/experiment.py").data
    assert source.names == ("O", "B-PER")
    question = {"question": "who", "answers": {"text": ["Ada"], "answer_start": [1]}}
    rows = [{**question, "context": f"Ada left {n}."} for n in range(9)]
    asked = write_lines(tmp_path / "in/asked.jsonl", rows)
    argv = command(tmp_path / "b", "qa", asked, "--encoder", "scratch")
    assert run(argv) == 2 and "(init: --repair)" in capsys.readouterr().err
    assert run([*argv, "--repair"]) == 0
    assert config.load(tmp_path / "b/experiment.py").data.repair
    assert run([*argv, "--repair", "--overwrite", "--names", "a"]) == 2
    assert "--names is not for Questions" in capsys.readouterr().err
