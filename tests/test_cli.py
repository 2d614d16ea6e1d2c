"""The command line on a small corpus: files, output and messages."""

import dataclasses
import gzip
import json
import os
import subprocess
import sys

import jax
import numpy as np
import pytest
from etils import epath
from safetensors.numpy import load_file, save_file

from dicejax import config
from dicejax.cli import parse, run
from dicejax.cli.choices import objective_named
from dicejax.data import tokenize
from dicejax.io.files import write_checked
from dicejax.objectives import SelfAdjustingDice
from dicejax.optimizers import AdamW

from .small_project import CORPUS, fails


@pytest.mark.slow
def test_train_evaluate_predict(project, capsys):
    assert run(["train", "mine.py", "--out", "run", "--recording.tensorboard"]) == 0
    said = capsys.readouterr()
    assert "F1 100.00" in said.out and "tokens/s" in said.out
    assert "epoch 12" in said.err

    folder = project / "run"
    records = [*map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())]
    losses = [r["loss"] for r in records if "loss" in r]
    assert losses[-1] < 0.1 * losses[0]
    assert [r["epoch"] for r in records if "dev/f1" in r] == list(range(12))
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

    assert run(["predict", "run", "Anna saw Oslo today", "Nothing happens here"]) == 0
    said = capsys.readouterr().out
    assert "PER      Anna  (words 0:1)" in said and "LOC      Oslo" in said
    assert "no entity" in said
    with gzip.open("lines.gz", "wt") as file:
        file.write("Bob saw New York today\n\n")
    assert run(["predict", "run", "--file", "lines.gz", "--json"]) == 0
    line, blank = capsys.readouterr().out.splitlines()
    assert json.loads(blank) == {"words": [], "entities": []}
    found = {(e["type"], e["text"]) for e in json.loads(line)["entities"]}
    assert found == {("PER", "Bob"), ("LOC", "New York")}

    (project / "data").rename(project / "moved")
    fails(capsys, ["evaluate", "run"], "data: no such folder", "evaluate: --data")
    assert run(["evaluate", "run", "--data", "moved"]) == 0
    assert "F1 100.00" in capsys.readouterr().out

    # A finished run is not overwritten by accident, nor by one that fails to start.
    argv = ["train", "mine.py", "--out", "run", "--overwrite"]
    fails(capsys, argv, "data: no such folder")
    assert json.loads((folder / "result.json").read_text()) == result
    assert run(["train", "mine.py", "--out", "run"]) == 0
    assert "already finished; --overwrite trains it anew" in capsys.readouterr().err
    assert json.loads((folder / "result.json").read_text()) == result


@pytest.mark.slow
def test_an_exported_run_tags_in_pytorch_as_it_does_here(project, capsys):
    torch = pytest.importorskip("torch", reason="parity: pip install -e '.[parity]'")
    transformers = pytest.importorskip("transformers")
    assert run(["train", "mine.py", "--out", "run"]) == 0
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
    assert run(["predict", "run", *sentences, "--json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for row, line in enumerate(lines):
        ours = ["O"] * len(words[row])
        for entity in json.loads(line)["entities"]:
            for place in range(entity["start"], entity["end"]):
                begin = "B" if place == entity["start"] else "I"
                ours[place] = f"{begin}-{entity['type']}"
        places = inputs.word_ids(row)
        first = [places.index(number) for number in range(len(words[row]))]
        theirs = [model.config.id2label[int(best[row, place])] for place in first]
        assert theirs == ours
    assert {"B-PER", "B-LOC", "O"} <= set(model.config.id2label.values())

    fails(capsys, ["export", "run", "folder"], "folder: exists already")
    fails(capsys, ["export", "nowhere", "other"], "nowhere: holds no run")
    assert run(["export", "run", "alone", "--encoder_only"]) == 0
    assert "BertModel" in capsys.readouterr().out


def test_the_same_seed_gives_the_same_run_and_another_seed_another(project):
    def losses(out, seed):
        argv = ["train", "mine.py", "--out", out, "--training.seed", str(seed)]
        assert run([*argv, "--training.epochs", "1"]) == 0
        lines = (project / out / "metrics.jsonl").read_text().splitlines()
        records = map(json.loads, lines)
        return [(r["step"], r["loss"]) for r in records if "loss" in r]

    first = losses("a", 0)
    assert first == losses("b", 0) != losses("c", 1)


@pytest.mark.slow
def test_compare_prints_a_table_and_uses_finished_runs_again(project, capsys):
    argv = ["compare", "mine.py", "--losses", "ce", "dice", "--training.epochs", "1"]
    argv += ["--no-baselines", "--seeds", "2"]
    assert run(argv) == 0
    said = capsys.readouterr()
    for part in ("precision", "recall", "F1", "ce", "dice", "over 2 seeds", "±"):
        assert part in said.out
    assert "dice seed 1  epoch 1" in said.err
    content = json.loads((project / "runs/small/comparison.json").read_text())
    assert list(content["losses"]) == ["ce", "dice"]
    for row in content["losses"].values():
        assert [run["status"] for run in row["runs"]] == ["finished"] * 2
        assert row["summary"]["n"] == 2
    beside = content["losses"]["dice"]["against_baseline"]
    assert beside["seeds"] == [0, 1]
    assert beside["crossed"] is None and len(beside["differences"]) == 2
    assert run(argv) == 0
    again = capsys.readouterr()
    assert again.err.count("used again") == 4 and "epoch 1" not in again.err
    assert again.out == said.out
    assert "report in runs/small/report.html" in said.out
    page = (project / "runs/small/report.html").read_bytes()
    assert run(["report", "runs/small"]) == 0
    assert (project / "runs/small/report.html").read_bytes() == page
    record = (project / "runs/small/report.md").read_text()
    assert f"| version of jax | {jax.__version__} |" in record
    fails(capsys, [*argv, "--optimizer.learning_rate", "1e-3"], "run of other settings")


def test_a_loss_takes_settings_after_its_name():
    loss = objective_named("dsc:alpha=1,squared=false,over=element")
    assert loss == SelfAdjustingDice(alpha=1.0, squared=False, over="element")
    assert objective_named("hard_negatives:minimum=3").minimum == 3


def test_types_that_training_lacks_are_warned_of_counted_and_missed(project, capsys):
    text = CORPUS.replace("B-LOC", "B-ORG").replace("I-LOC", "I-ORG")
    (project / "data/test.txt").write_text(text)
    assert run(["train", "mine.py", "--out", "run"]) == 0
    assert "test has 2 'ORG' spans, a type that train lacks" in " ".join(
        capsys.readouterr().err.split()
    )
    result = json.loads((project / "run/result.json").read_text())
    assert result["test"]["per_type"]["ORG"]["support"] == 2
    assert result["test"]["recall"] == 0.5


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        (CORPUS.replace("lives VBZ O", "lives O"), ("train.txt:4:", "2 columns")),
        (CORPUS.replace("I-LOC", "X-LOC"), ("train.txt:", "X-LOC")),
        ("", ("train.txt: is empty",)),
    ],
    ids=["short row", "unknown tag", "empty file"],
)
def test_a_bad_file_ends_in_one_line_and_nothing_written(
    project, capsys, content, parts
):
    (project / "data/train.txt").write_text(content)
    fails(capsys, ["train", "mine.py", "--out", "run"], *parts)
    assert not (project / "run").exists()


def use_model(project, model_folder):
    """Let the project's experiment read its encoder from a model folder."""
    experiment = (project / "mine.py").read_text()
    start, end = (
        experiment.index("ScratchEncoder(v"),
        experiment.index("        optimizer"),
    )
    encoder = f"PretrainedEncoder(path={str(model_folder)!r}),\n"
    changed = experiment[:start] + encoder + experiment[end:]
    changed = changed.replace(
        "import Experiment, ", "import Experiment, PretrainedEncoder, "
    )
    (project / "mine.py").write_text(changed)


def test_a_foreign_tokenizer_ends_in_one_line(project, capsys, model_folder):
    use_model(project, model_folder)
    words = [chr(letter) for letter in range(97, 123)]
    tokenizer = tokenize.learn_wordpiece(words, 100)
    tokenizer.save(str(model_folder / "tokenizer.json"))
    fails(capsys, ["train", "mine.py"], "tokenizer has 57 entries, the encoder 11")


def test_weights_that_do_not_fit_end_in_one_line(project, capsys, model_folder):
    use_model(project, model_folder)
    tokenizer = tokenize.learn_wordpiece(["a"], vocab_size=7)
    tokenizer.save(str(model_folder / tokenize.FILE))
    tensors = load_file(model_folder / "model.safetensors")
    tensors["embeddings.LayerNorm.bias"] = np.ones(9, np.float32)
    del tensors["encoder.layer.1.output.dense.bias"]
    save_file(tensors, model_folder / "model.safetensors")
    argv = ["train", "mine.py", "--out", "run"]
    fails(
        capsys,
        argv,
        "embeddings.LayerNorm.bias is (9,), config.json wants (8,)",
        "missing encoder.layer.1.output.dense.bias (8,)",
    )
    (model_folder / "model.safetensors").rename(model_folder / "pytorch_model.bin")
    fails(capsys, argv, "pickle", "save_pretrained")
    assert not (project / "run").exists()


@pytest.mark.exhaustive
@pytest.mark.slow
def test_the_installed_command_trains_on_eight_devices(project):
    words = "from dicejax.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", words, "train", "mine.py", "--out", "run"],
        env=os.environ | {"JAX_NUM_CPU_DEVICES": "8"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    result = json.loads((project / "run/result.json").read_text())
    assert result["devices"] == 8 and result["test"]["f1"] == 1.0
    assert "WARNING" not in done.stderr


@pytest.mark.parametrize(
    ("argv", "parts"),
    [
        (["trian"], ["did you mean train?"]),
        (["train"], ["none is named"]),
        (["train", "none.py"], ["none.py: no such experiment file"]),
        (
            ["train", "mine.py", "--loss", "dicee"],
            ["known: sum, ", "did you mean dice?"],
        ),
        (["train", "mine.py", "--data.dir", "nowhere"], ["nowhere: no such folder"]),
        (["compare", "mine.py", "--losses", "ce", "ce"], ["named twice"]),
        (
            ["compare", "mine.py", "--losses", "dsc:alfa=1"],
            ["loss dsc has no 'alfa'", "did you mean alpha?"],
        ),
        (
            ["compare", "mine.py", "--losses", "dsc:alpha=high"],
            ["loss dsc: alpha=high cannot be read; want float"],
        ),
        (["compare", "mine.py", "--shard", "3/2"], ["--shard is '3/2'; want I/N"]),
        (
            ["train", "mine.py", "--loss", "focal", "--objective.gamma", "-1"],
            ["objective focal: gamma is -1.0 but must be in [0, inf)"],
        ),
        (
            ["train", "mine.py", "--loss", "mom", "--objective.weight", "2"],
            ["objective mom: weight is 2.0 but must be in [0, 1]"],
        ),
        (["compare", "mine.py", "--seeds", "0"], ["--seeds is 0"]),
        (["evaluate", "nowhere"], ["nowhere: holds no run"]),
        (["predict", "data"], ["nothing to predict"]),
        (["predict", "data", "hello"], ["data: holds no run"]),
    ],
    ids=lambda value: " ".join(value),
)
def test_what_cannot_be_done_is_said_in_one_line(project, capsys, argv, parts):
    fails(capsys, argv, *parts)
    assert not (project / "runs").exists()


def test_an_unfinished_run_is_not_evaluated(project, capsys):
    mine = config.load(project / "mine.py")
    other = dataclasses.replace(mine.training, seed=mine.training.seed + 1)
    begun = config.to_json(dataclasses.replace(mine, training=other))
    write_checked(epath.Path("half"), "experiment.json", begun)
    fails(capsys, ["evaluate", "half"], "did not finish")
    fails(capsys, ["train", "mine.py", "--out", "half"], "an unfinished run")
    (project / "other").mkdir()
    (project / "other/notes.txt").write_text("mine")
    fails(capsys, ["train", "mine.py", "--out", "other", "--overwrite"], "holds no run")
    assert (project / "other/notes.txt").exists()


@pytest.mark.parametrize(
    ("flag", "meant"),
    [
        ("--objective.label_smothing", "--objective.label_smoothing"),
        ("--optimizer.lerning_rate", "--optimizer.learning_rate"),
        ("--training.epoch", "--training.epochs"),
    ],
)
def test_a_wrong_flag_suggests_the_right_one(project, capsys, flag, meant):
    with pytest.raises(SystemExit) as stop:
        run(["train", "mine.py", flag, "1"])
    assert stop.value.code == 2
    assert f"{meant} " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--rule lion", "--rule is now --optimizer"),
        ("--no-controls", "--no-controls is now --no-baselines"),
        ("--stack=auto", "--stack is gone: each run is trained alone"),
        ("--training.row_length 9", "is now --training.max_length"),
        ("--training.row-length=9", "--training.row-length is now"),
        ("--training.sentences_per_update 9", "is now --training.batch_size"),
        ("--training.most_skipped 9", "is now --training.max_consecutive_skips"),
    ],
)
def test_a_flag_of_an_earlier_version_names_the_new_one(project, capsys, words, said):
    fails(capsys, ["compare", "mine.py", *words.split()], said)


def test_overrides_reach_the_experiment(project):
    words = (
        "train mine.py --loss dsc --objective.alpha 0.05 --optimizer=adamw --scratch"
    )
    settings = parse([*words.split(), "--training.epochs", "1"]).settings
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
