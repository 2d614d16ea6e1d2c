"""The command line on a small corpus: files, output and messages."""

import dataclasses
import difflib
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from etils import epath

import dicejax.training.train as training
from dicejax import config
from dicejax.cli import parse, run
from dicejax.data import tokenize
from dicejax.errors import InputError
from dicejax.io.files import write_checked
from dicejax.mesh import MeshShape
from dicejax.objectives import SelfAdjustingDice, by_short_name
from dicejax.objectives.parsing import objective_named
from dicejax.optimizers import AdamW
from dicejax.tasks.described import text_and_gold
from dicejax.training.run_folder import Run
from dicejax.training.setup import prepare

from .kinds import exhaustive_but
from .small_project import CORPUS, fails, write_experiment

TRAIN = ["train", "mine.py", "--out", "run"]


def records(folder):
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.slow
def test_train_and_evaluate(project, capsys):
    assert run(["train", "mine.py", "--out", "run", "--recording.tensorboard"]) == 0
    output = capsys.readouterr()
    assert "F1 100.00" in output.out and "tokens/s" in output.out
    assert "epoch 12" in output.err

    folder = project / "run"
    rows = records(folder)
    losses = [row["loss"] for row in rows if "loss" in row]
    assert losses[-1] < 0.1 * losses[0]
    assert [row["epoch"] for row in rows if "dev/f1" in row] == list(range(12))
    assert list((folder / "tensorboard").iterdir())
    result = json.loads((folder / "result.json").read_text())
    assert result["test"]["f1"] == 1.0 and result["best_dev_score"] == 1.0
    assert result["test"]["per_type"]["LOC"]["support"] == 4
    assert not list(folder.glob("*.partial"))

    assert run(["evaluate", "run", "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["f1"] == 1.0 and again["step"] == result["best_step"]
    assert run(["evaluate", "run", "--split", "dev", "--checkpoint", "last"]) == 0
    assert "dev, last checkpoint" in capsys.readouterr().out

    (project / "data").rename(project / "moved")
    fails(capsys, ["evaluate", "run"], "data: no such folder", "evaluate: --data")
    assert run(["evaluate", "run", "--data", "moved"]) == 0
    assert "F1 100.00" in capsys.readouterr().out

    # A finished run is not overwritten by accident, nor by one that fails to start.
    argv = [*TRAIN, "--overwrite"]
    fails(capsys, argv, "data: no such folder")
    assert json.loads((folder / "result.json").read_text()) == result
    assert run(TRAIN) == 0
    assert "already finished; --overwrite trains it again" in capsys.readouterr().err
    assert json.loads((folder / "result.json").read_text()) == result


@pytest.mark.slow
def test_an_exported_run_tags_in_pytorch_as_it_does_here(project, capsys):
    torch = pytest.importorskip("torch", reason="parity: pip install -e '.[parity]'")
    transformers = pytest.importorskip("transformers")
    assert run(TRAIN) == 0
    capsys.readouterr()
    assert run(["export", "run", "folder"]) == 0
    assert "BertForTokenClassification.from_pretrained('folder')" in (
        capsys.readouterr().out
    )
    model = transformers.AutoModelForTokenClassification.from_pretrained("folder")
    tokenizer = transformers.AutoTokenizer.from_pretrained("folder")
    sentences = ["Anna saw Oslo today", "Bob lives in New York", "Nothing"]
    words = [sentence.split() for sentence in sentences]
    inputs = tokenizer(
        words, is_split_into_words=True, padding=True, return_tensors="pt"
    )
    with torch.no_grad():
        best = model.eval()(**inputs).logits.argmax(-1)
    assert run(["predict", "run", *sentences, "--out_format", "conll"]) == 0
    lines = capsys.readouterr().out.splitlines()
    firsts = [
        (row, inputs.word_ids(row).index(number))
        for row, sentence in enumerate(words)
        for number in range(len(sentence))
    ]
    names = [model.config.id2label[int(best[place])] for place in firsts]
    assert names == [line.split()[1] for line in lines if line]
    assert {"B-PER", "B-LOC", "O"} <= set(model.config.id2label.values())

    fails(capsys, ["export", "run", "folder"], "folder: exists already")
    assert run(["export", "run", "alone", "--encoder_only"]) == 0
    assert "BertModel" in capsys.readouterr().out


def test_the_file_of_a_bare_name_is_proposed(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = Path("experiments", "pairs", "mrpc.py")
    file.parent.mkdir(parents=True)
    file.touch()
    fails(capsys, ["compare", "mrpc"], f"mrpc is none; did you mean {file}?")
    fails(capsys, ["compare", "../mrpc"], "NAME.py: ../mrpc is none")


@pytest.mark.slow
def test_compare_prints_a_table_and_uses_finished_runs_again(project, capsys):
    argv = ["compare", "mine.py", "--losses", "ce", "dice", "--no-baselines"]
    argv += ["--training.epochs", "1", "--seeds", "2"]
    assert run(argv) == 0
    output = capsys.readouterr()
    parts = ("precision", "recall", "F1", "ce", "dice", "over 2 seeds", "±")
    assert all(part in output.out for part in parts)
    assert "dice seed 1  epoch 1" in output.err
    content = json.loads((project / "runs/small/comparison.json").read_text())
    assert [row["summary"]["n"] for row in content["losses"].values()] == [2, 2]
    against = content["losses"]["dice"]["against_baseline"]
    assert against["seeds"] == [0, 1] and against["crossed"] is None
    assert run(argv) == 0
    again = capsys.readouterr()
    assert again.err.count("used again") == 4 and "epoch 1" not in again.err
    assert again.out == output.out
    assert "report in runs/small/report.html" in output.out
    record = (project / "runs/small/report.md").read_text()
    assert f"| version of jax | {jax.__version__} |" in record
    fails(
        capsys, [*argv, "--optimizer.learning_rate", "1e-3"], "run with other settings"
    )


WAYS = [
    "--training.precision float16 --optimizer.ema_decay 0.9",
    "--training.batching buckets --training.buckets 2",
    "--training.rows_per_update 4 --training.micro_batches 2",
    "--optimizer.frozen_layers 1 --optimizer.freeze_embeddings",
]


@pytest.mark.parametrize("flags", exhaustive_but(WAYS[:1], WAYS))
def test_each_way_to_train_learns_the_corpus(project, flags):
    assert run([*TRAIN, *flags.split()]) == 0
    rows = records(project / "run")
    losses = [row["loss"] for row in rows]
    assert losses[-1] < 0.3 * losses[0]
    result = json.loads((project / "run/result.json").read_text())
    f1 = result["test"]["f1"]
    assert f1 > 0.9
    finished = Run(epath.Path("run"))
    above, below = finished.example_statistics().sum(axis=(0, 1))
    assert above / below == pytest.approx(f1)
    # The same from predictions and gold in words; two documents of three sentences.
    gold = map(text_and_gold, finished.experiment().data.load().test)
    pairs = zip(finished.test_array("predictions").tolist(), gold, strict=True)
    sets = [[{*x.split("; ")} - {"-"} for x in (text, g)] for text, (_, g) in pairs]
    right = 2 * sum(len(predicted & actual) for predicted, actual in sets)
    assert right / sum(len(a) + len(b) for a, b in sets) == pytest.approx(f1)
    assert finished.test_array("groups").tolist() == [0, 0, 0, 1, 1, 1]
    assert result["skipped"] == 0
    if "float16" in flags:
        assert {row["loss_scale"] for row in rows} == {2.0**15}


def test_a_run_that_diverges_stops_and_keeps_the_batch(project, capsys):
    argv = [*TRAIN, "--training.max_consecutive_skips", "3"]
    assert run([*argv, "--optimizer.learning_rate", "1e30"]) == 1
    line = capsys.readouterr().err.strip().splitlines()[-1]
    assert "no finite loss or gradient in 3 steps in a row, " in line
    assert "lower --optimizer.learning_rate" in line
    first = int(line.partition("in a row, ")[2].split()[0])
    setup = prepare(Run(epath.Path("run")).experiment(), warn=print)
    batch = setup.batches(MeshShape().make())[first - 1].arrays
    with np.load(project / f"run/not_finite_step_{first}.npz") as saved:
        assert set(saved.files) == set(batch)
        for name in saved.files:
            np.testing.assert_array_equal(saved[name], batch[name])
    assert not (project / "run/result.json").exists()
    assert Run(epath.Path("run")).diverged() in line


def test_a_transfer_outside_the_batch_is_an_error(project, monkeypatch):
    """The transfer guard rejects a host array within a step."""
    real = training.train_step
    calls = []

    def stray(state, arrays, objective, **fixed):
        calls.append(1)
        if len(calls) == 4:
            arrays = arrays | {"input_ids": np.asarray(arrays["input_ids"])}
        return real(state, arrays, objective, **fixed)

    monkeypatch.setattr(training, "train_step", stray)
    with pytest.raises(jax.errors.JaxRuntimeError, match="Disallowed host-to-device"):
        run(TRAIN)
    assert len(calls) == 4


def test_a_tokenizer_of_another_model_ends_in_one_line(project, capsys, model_folder):
    encoder = f"PretrainedEncoder(path={str(model_folder)!r})"
    experiment = (project / "mine.py").read_text()
    experiment = re.sub(r"ScratchEncoder\(.*?\)", encoder, experiment, flags=re.DOTALL)
    experiment = experiment.replace("ScratchEncoder", "PretrainedEncoder")
    (project / "mine.py").write_text(experiment)
    letters = tokenize.learn_wordpiece([*"abcdefghijklmnopqrstuvwxyz"], 100)
    letters.save(str(model_folder / tokenize.FILE))
    fails(capsys, TRAIN, "tokenizer has 57 entries, the encoder 11")
    assert not (project / "run").exists()


REFUSED = [
    ("trian", "did you mean train?"),
    ("train", "none is named"),
    ("train none.py", "none.py: no such experiment file"),
    (
        "train mine.py --loss dicee",
        "did you mean dice",
        "; nearest of ",
        ": dice, log_dice, ce",
    ),
    ("train mine.py --data.dir nowhere", "nowhere: no such folder"),
    ("train mine.py --data.train bad.txt", "bad.txt:4:", "2 columns"),
    ("compare mine.py --losses ce ce", "named twice"),
    ("compare mine.py --losses ce,focal", "'ce,focal'; separate names by spaces"),
    ("compare mine.py --losses dsc:alfa=1", "dsc has no 'alfa'", "did you mean alpha?"),
    (
        "compare mine.py --losses dsc:alpha=high",
        "alpha=high cannot be read; want float",
    ),
    ("compare mine.py --losses tversky:squared=true", "has no 'squared'", "; dice, "),
    ("train mine.py --loss dice:over=row", "over=row cannot be read; want batch or"),
    ("train mine.py --loss mined:of=dcs", "unknown loss 'dcs'", "dsc"),
    ("compare mine.py --shard 3/2", "--shard is '3/2'; want I/N"),
    (
        "train mine.py --loss focal --objective.gamma -1",
        "focal: gamma is -1.0 but must",
    ),
    ("compare mine.py --seeds 0", "--seeds is 0"),
    (
        "train mine.py --out run --mesh.data 3",
        "data 3 x fsdp 1 x tensor 1 takes 3 devices",
        "leave --mesh.data out",
    ),
    ("train mine.py --mesh.tensor 2", "--mesh.tensor is 2 and must be one of 1"),
    (
        "train mine.py --training.rows_per_update 5 --training.micro_batches 2",
        "rows_per_update 5 does not divide into",
        "2 micro-batches; take 4 or 6",
    ),
    ("train mine.py --out mine.py/run", "mine.py/run"),
    ("train mine.py --out /proc/run", "/proc/run"),  # root may not write there either
    ("evaluate nowhere", "nowhere: holds no run"),
    ("export nowhere other", "nowhere: holds no run"),
    ("predict data", "nothing to predict"),
    ("predict data hello", "data: holds no run"),
    ("evaluate half", "did not finish"),
    ("train mine.py --out half", "an unfinished run"),
    ("train mine.py --out data --overwrite", "holds no run"),
    # A flag without its group names the whole.
    ("train mine.py --lr 1e-4", "--lr; did you mean --optimizer.learning_rate?"),
    ("train mine.py --epochs=3", "--epochs; did you mean --training.epochs?"),
    ("train mine.py --max-seq-length 9", "did you mean --training.max_length?"),
    ("compare mine.py --seed 1", "did you mean --seeds or --training.seed?"),
    ("plan mine.py --fsdp 2", "did you mean --mesh.fsdp?"),
    ("compare mine.py --training.head_bias prior", "is said by the names of losses"),
    ("--no_such 1", "want COMMAND first"),
    # A flag of an earlier version names the new one.
    ("compare mine.py --rule lion", "--rule is now --optimizer"),
    ("compare mine.py --no-controls", "--no-controls is now --no-baselines"),
    ("compare mine.py --stack=auto", "--stack is gone: each run is trained alone"),
    ("compare mine.py --training.row_length 9", "is now --training.max_length"),
    ("compare mine.py --training.row-length=9", "--training.row-length is now"),
]


@pytest.mark.parametrize(
    ("words", "parts"), [(words, parts) for words, *parts in REFUSED]
)
def test_what_cannot_be_done_is_said_in_one_line(project, capsys, words, parts):
    (project / "data/bad.txt").write_text(CORPUS.replace("lives VBZ O", "lives O"))
    mine = config.load(project / "mine.py")
    other = dataclasses.replace(mine.training, seed=mine.training.seed + 1)
    begun = config.to_json(dataclasses.replace(mine, training=other))
    write_checked(epath.Path("half"), "experiment.json", begun)
    fails(capsys, words.split(), *parts)
    assert not (project / "runs").exists() and not (project / "run").exists()
    assert (project / "data/bad.txt").exists()


@pytest.mark.parametrize(
    ("words", "package"),
    [
        ("train mine.py --out gs://bucket/run", "gcsfs"),
        ("init ner new --data s3://bucket/train.txt", "s3fs"),
    ],
)
def test_a_bucket_without_its_package_is_one_line(project, capsys, words, package):
    if importlib.util.find_spec(package):
        pytest.skip(f"{package} is installed")
    assert run(words.split()) == 2
    *notes, line = capsys.readouterr().err.splitlines()
    assert line.startswith("dicejax: ") and package in line and "extras" in line
    assert not any("Traceback" in note for note in notes)


@pytest.mark.parametrize("name", ["dicee", "DICE", "x", "cross_entropy", "y" * 5000])
def test_a_typo_in_a_loss_lists_the_five_nearest(name):
    with pytest.raises(InputError) as error:
        objective_named(name)
    start, _, listed = str(error.value).partition("; nearest of ")
    count, _, names = listed.partition(": ")
    classes = by_short_name()
    assert start.startswith(f"unknown loss '{name[:40]}"[:40])
    assert int(count) == len(classes) and len({*names.split(", ")}) == 5
    assert {*names.split(", ")} < {*classes}
    distances = {
        x: difflib.SequenceMatcher(None, x, name[:100]).ratio() for x in classes
    }
    largest = sorted(distances.values())[-5:]
    listed = sorted(distances[x] for x in names.split(", "))
    assert listed == pytest.approx(largest, abs=1e-12)


def test_a_wrong_flag_suggests_the_right_one(project, capsys):
    for flag, meant in {
        "--objective.label_smothing": "--objective.label_smoothing",
        "--optimizer.lerning_rate": "--optimizer.learning_rate",
        "--training.epoch": "--training.epochs",
    }.items():
        with pytest.raises(SystemExit) as stop:
            run(["train", "mine.py", flag, "1"])
        assert stop.value.code == 2
        assert f"{meant} " in capsys.readouterr().err


def test_overrides_reach_the_experiment(project):
    words = "train mine.py --loss dsc --objective.alpha 0.05 --optimizer=adamw"
    settings = parse([*words.split(), "--scratch", "--training.epochs", "1"]).settings
    assert settings.objective == SelfAdjustingDice(alpha=0.05)
    assert settings.optimizer == AdamW() and settings.encoder == config.ScratchEncoder()
    assert settings.training.epochs == 1 and settings.training.batch_size == 16


def test_a_reader_that_has_had_enough_is_no_error():
    code = "from dicejax.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "compare", "--help"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"DICEJAX_HUGE_PAGES": "0", "PYTHONUNBUFFERED": ""},
    )
    process.stdout.close()  # before anything is printed
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 128 + 13


def test_pairs_that_are_cut_are_counted_in_the_last_lines(tmp_path, capsys):
    # With [CLS] and two [SEP] the second and the last have more than 12 tokens.
    pairs = ["a b,a", f"{'a ' * 6},{'b ' * 4}", f"b,{'a ' * 5}", f"b a,{'b ' * 20}"]
    lines = [f"{pair},{n % 2}\n" for n, pair in enumerate(pairs * 2)]
    reads = 'test="data", first="first", second="second"'
    content = "first,second,label\n" + "".join(lines)
    argv = write_experiment(tmp_path, "TextFiles", "Classification", content, "", reads)
    assert run([*argv, "--training.max_length", "12"]) == 0
    cut = [
        f"4 of 8 {split} pairs (50%) are cut off at 12 tokens; raise "
        "--training.max_length"
        for split in ("train", "dev", "test")
    ]
    lines = capsys.readouterr().err.splitlines()
    assert lines[-3:] == [f"warning: {text}" for text in cut]
    out = str(tmp_path / "run")
    result = json.loads((tmp_path / "run/result.json").read_text())
    assert result["cut"] == cut
    for flags in ([], ["--json"]):
        assert run(["evaluate", out, *flags]) == 0
        assert capsys.readouterr().err.splitlines() == [f"warning: {cut[2]}"]
    assert run(["predict", out, "a b\tb", "b " * 20 + "\ta"]) == 0
    line, untaught = capsys.readouterr().err.splitlines()
    assert line.startswith("warning: 1 of 2 given pairs (50%) are cut off at 12 tokens")
    assert result["nothing_learnt"] in untaught


def test_a_threshold_that_dev_cannot_promise_is_refused_before_training(
    tmp_path, capsys
):
    content = "text,label\n" + "a fine film,0\na dull film,1\n" * 8
    reads = 'test="data", first="text", label="label"'
    argv = write_experiment(tmp_path, "TextFiles", "Classification", content, "", reads)
    argv += ["--training.epochs", "2", "--task.positive", "1"]
    for flags, *parts in (
        (["recall:0.95"], "8 positives on dev, and it takes 59", "best of 2 epochs"),
        (["fpr:0.5", "--loss", "metro"], "metro learns from decisions on dev"),
    ):
        fails(capsys, [*argv, "--task.threshold", *flags], *parts)
        assert not (tmp_path / "run").exists()
    for flags, text in (
        (["f1:0.9"], "threshold f1:0.9: 'f1' is not a measure"),
        (["recall:0.5", "--task.tune_threshold"], "exclude each other"),
    ):
        with pytest.raises(SystemExit, match="2"):
            run([*argv, "--task.threshold", *flags])
        assert text in " ".join(capsys.readouterr().err.split())
    write_experiment(tmp_path, "ConllFiles", "WordTagging", CORPUS)
    argv = [*argv[:2], "--task.threshold", "recall:0.9"]
    fails(capsys, argv, "--task.threshold is not for WordTagging")


def test_too_little_memory_is_one_line(project, capsys, monkeypatch):
    def exhausted(*args, **kwargs):
        raise RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 9 bytes.\nAt")

    monkeypatch.setattr("dicejax.training.train.train", exhausted)
    assert run(["train", "mine.py", "--out", "runs/large"]) == 2
    *_, line = capsys.readouterr().err.splitlines()
    assert line.startswith("dicejax: RESOURCE_EXHAUSTED") and "max_length" in line
