"""The rare class is named and counted from `init` to the card, whatever its name."""

import dataclasses
import json
import random

import pytest

from dicejax import config
from dicejax.cli import run
from dicejax.config import Experiment, ScratchEncoder, Training
from dicejax.errors import InputError
from dicejax.formats import TextFiles
from dicejax.io.files import write_checked
from dicejax.objectives import CrossEntropy, Dice
from dicejax.optimizers import AdamW
from dicejax.study import report
from dicejax.study.card import model_card
from dicejax.study.compare import results
from dicejax.study.compare.jobs import (
    jobs_of,
    require_fit,
    scored,
)
from dicejax.study.compare.same_data import require_one_data
from dicejax.study.compare.statistics import columns_of
from dicejax.study.compare.table import unlearnt
from dicejax.tasks import Classification, MultiLabelClassification
from dicejax.training.run_folder import Run
from dicejax.training.train import train

from .made_runs import made, record_of, run_of

CSV = {name: f"{name}.csv" for name in ("train", "dev", "test")}
SMALL = ScratchEncoder(
    vocab_size=100,
    hidden_size=16,
    intermediate_size=16,
    num_hidden_layers=1,
    num_attention_heads=2,
    dropout=0.0,
)
PAIRS = [
    *[("complaint", "ok"), ("spam", "ham"), ("1", "0"), ("-1", "1")],
    *[("yes", "no"), ("B", "A")],
]
BOTH = [*PAIRS, *(pair[::-1] for pair in PAIRS)]
WORDS = ["a", "b", "c", "d", "e", "f"]


def write(folder, rare, frequent, *, is_pair=False, each=2):
    """Write splits at 1 : 20 whose rare texts have a word of their own."""
    rng = random.Random(0)
    for split, size in {"train": 21 * each, "dev": 63, "test": 126}.items():
        lines = ["text,second,label" if is_pair else "text,label"]
        for n in range(size):
            label = frequent if n % 21 else rare
            words = rng.choices(WORDS, k=5) + ["bad"] * (label == rare)
            second = ["again"] if is_pair else []
            lines.append(",".join([f"{' '.join(words)} n{n}", *second, label]))
        (folder / f"{split}.csv").write_text("\n".join(lines) + "\n")
    return folder


@pytest.mark.parametrize("is_pair", [False, True])
@pytest.mark.parametrize(("rare", "frequent"), BOTH)
def test_init_says_imbalance_from_the_rare_side(
    rare, frequent, is_pair, tmp_path, capsys
):
    write(tmp_path, rare, frequent, is_pair=is_pair)
    command = ["init", "classification", str(tmp_path / "mine")]
    more = ["--second", "second"] if is_pair else []
    words = ["--data", str(tmp_path), "--encoder", "scratch", *more]
    assert run([*command, *words]) == 0
    out, err = capsys.readouterr()
    assert f"imbalance: 20 times as many {frequent!r} as {rare!r} (40 vs. 2)" in out
    assert (
        f"of 42 texts 2 are {rare!r}; test has 6, which measure a recall of 83%" in out
    )
    assert f"{rare!r} is the positive class, the rarer one of train (2 of 42)" in err
    disagrees = frequent in ("1", "yes")
    assert (f", against the name {frequent!r}" in err) == disagrees
    experiment = config.load(tmp_path / "mine" / "experiment.py")
    assert experiment.task == Classification(positive=rare)
    text = (tmp_path / "mine" / "experiment.py").read_text()
    assert f"# label: imbalance: 20 times as many {frequent!r} as {rare!r}" in text
    assert f"# In fewer than 20 examples of train: {rare} 2." in text


def test_init_says_that_two_classes_are_equally_frequent(tmp_path, capsys):
    lines = "".join(f"a text {n},{'ab'[n % 2]}\n" for n in range(40))
    (tmp_path / "train.csv").write_text(f"text,label\n{lines}")
    assert run(["init", "classification", str(tmp_path), "--data", str(tmp_path)]) == 0
    assert "imbalance: as many 'a' as 'b' (14 vs. 14)" in capsys.readouterr().out


def test_init_chooses_losses_by_the_rarest(tmp_path, capsys):
    """Pretrained encoders get rivals of cross-entropy at 1:20, as at 20:1."""
    from dicejax.init.starter import _choose_losses
    from dicejax.study.profile import profile

    for rare, frequent in (("complaint", "ok"), ("spam", "ham")):
        write(tmp_path, rare, frequent)
        data = TextFiles(dir=str(tmp_path), **CSV)
        task = Classification(positive=rare)
        counts = profile(Experiment(name="x", data=data, task=task), lambda text: None)
        (output,) = counts.splits["train"].outputs
        assert output.ratio == 20.0
        balance = f"20 times as many {frequent!r} as {rare!r}"
        losses, reason = _choose_losses([output], 20.0, balance, "pretrained", 900)
        assert "Focal()" in losses and reason.startswith(balance)


def test_init_takes_macro_f1_where_a_label_is_rare(tmp_path, capsys):
    rows = [{"text": f"a {n}", "labels": ["film"] * (n % 3 > 0)} for n in range(200)]
    for n in range(0, 200, 25):
        rows[n]["labels"] = ["war"]
    for split in ("train", "dev", "test"):
        lines = "".join(f"{json.dumps(row)}\n" for row in rows)
        (tmp_path / f"{split}.jsonl").write_text(lines)
    command = ["init", "classification", str(tmp_path / "mine")]
    assert run([*command, "--data", str(tmp_path), "--encoder", "scratch"]) == 0
    out, err = capsys.readouterr()
    assert "24 times as many texts without 'war' as with it (192 vs. 8)" in out
    assert "of 200 texts 8 have 'war'; test has 8, which measure a recall of 75%" in out
    why = "Macro F1, since micro F1 follows the frequent labels: 8 of 200 texts have"
    assert f"{why} 'war'" in err
    file = tmp_path / "mine" / "experiment.py"
    task = MultiLabelClassification(primary_metric="macro_f1")
    assert config.load(file).task == task
    assert f"# {why} 'war'." in file.read_text()


def experiment_of(folder, task=None):
    return Experiment(
        name="rare",
        data=TextFiles(dir=str(folder), **CSV),
        task=task or Classification(),
        encoder=SMALL,
        objective=CrossEntropy(),
        optimizer=AdamW(learning_rate=1e-2),
        training=Training(epochs=3, batch_size=21, max_length=16),
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return data and the runs of one task that names nothing, one the majority."""
    folder = tmp_path_factory.mktemp("rare")
    write(folder, "complaint", "ok", each=10)
    tasks = {
        "new": Classification(threshold="recall:0.3", threshold_delta=0.4),
        "old": Classification(positive="ok"),
    }
    for name, task in tasks.items():
        train(experiment_of(folder, task), folder / name / "ce" / "seed-0")
    return folder


def test_every_output_names_the_rare_class(trained, capsys):
    folder = str(trained / "new" / "ce" / "seed-0")
    assert run(["evaluate", folder]) == 0
    out = capsys.readouterr().out
    lines = [line for line in out.splitlines() if line.startswith("test, best")]
    assert all("F1 of 'complaint'" in line for line in lines[:2]) and len(lines) == 3
    assert "complaint" in out.split("support")[1] and "rarest" not in lines[0]
    result = json.loads((trained / "new/ce/seed-0/result.json").read_text())
    assert result["test"]["positive"] == "complaint"
    assert result["test"]["f1"] == result["test"]["per_type"]["complaint"]["f1"]
    assert result["test_with_tuned_threshold"]["positive"] == "complaint"
    card = model_card(folder, "AutoModelForSequenceClassification")
    assert "F1 of 'complaint'" in card.replace("''complaint''", "'complaint'")
    assert f"Nothing learnt: {result['nothing_learnt']}" in card
    assert "| all, 'complaint' positive |" in card
    assert run(["predict", folder, "a b bad", "--json"]) == 0
    (row,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert list(row["probabilities"]) == ["ok", "complaint"]


def test_a_run_keeps_the_class_that_it_was_trained_with(trained, tmp_path, capsys):
    """A run of before names nothing, and has its labels in their order."""
    run_folder = Run.open(str(trained / "old" / "ce" / "seed-0"))
    before, result = experiment_of(trained), run_folder.result()
    write_checked(run_folder.path, "experiment.json", config.to_json(before))
    for name in ("test", "test_at_last_step"):
        assert result[name].pop("positive") == "ok"
    write_checked(run_folder.path, "result.json", json.dumps(result))
    assert run(["evaluate", str(run_folder.path)]) == 0
    assert "F1 of 'ok'" in capsys.readouterr().out
    assert run_folder.result()["test"]["positive"] == "ok"
    named = experiment_of(trained, Classification(positive="ok"))
    for experiment in (before, named):
        assert Run.create(str(run_folder.path), experiment).continues
    with pytest.raises(InputError, match=r"task\.positive was null and is"):
        other = experiment_of(trained, Classification(positive="complaint"))
        Run.create(str(run_folder.path), other)
    # Resumed, it ends with the class that it began with, and the same scores.
    (run_folder.path / "result.json").unlink()
    resumed = train(before, run_folder.path)
    assert resumed.test["positive"] == "ok"
    assert resumed.test["f1"] == result["test"]["f1"]
    # In a comparison other runs would be of the rare class.
    jobs = jobs_of(before, (CrossEntropy(), Dice()), 1, str(trained / "old"))
    with pytest.raises(InputError) as caught:
        require_fit(jobs)
    assert (
        "seed-0: was trained with 'ok' as the positive class, and 'complaint' is"
        in (str(caught.value))
    )
    assert "--task.positive ok, or train all runs again with --overwrite" in (
        str(caught.value)
    )
    require_fit(jobs, overwrite=True)
    require_fit(jobs_of(named, (CrossEntropy(), Dice()), 1, str(trained / "old")))
    outcomes = [
        scored(dataclasses.replace(jobs[0], folder=str(trained / x / "ce/seed-0")))
        for x in ("old", "new")
    ]
    with pytest.raises(
        InputError, match=r"are those of 'complaint', and those of .*'ok'"
    ):
        require_one_data(outcomes)


def test_a_class_that_is_none_is_refused_before_training(trained, tmp_path):
    task = Classification(primary_metric="f1:refund")
    with pytest.raises(InputError, match="the classes are 'complaint', 'ok'"):
        train(experiment_of(trained, task), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_loss_that_gets_nothing_of_a_class_right_is_named(tmp_path):
    """Of three classes cross-entropy has learnt the rare one, dice has not."""
    jobs = made(tmp_path, (CrossEntropy(), Dice()), 3)
    for job in jobs:
        is_ce = job.loss == "ce"
        rows = {
            "a": {"f1": 0.9, "recall": 0.9, "support": 300},
            "rare": {"f1": 1.0 * is_ce, "recall": 1.0 * is_ce, "support": 21},
            "few": {"f1": 1.0 * is_ce, "recall": 1.0 * is_ce, "support": 4},
        }
        result = run_of(job).result()
        result["test"] |= {"per_type": rows}
        run_of(job).write_result(result)
    result = results.evaluate_runs(jobs, str(tmp_path))
    rows = result.rows
    sentence = (
        "dice gets nothing of 'rare' (100.0) right in 3 of 3 runs; in brackets the F1 "
        "of cross-entropy."
    )
    assert unlearnt(rows) == [sentence]
    report.write(result)
    assert sentence in record_of(tmp_path)["warnings"]
    # The rarest class with five examples stands beside the total.
    assert list(columns_of(rows)) == [
        *("F1", "F1 of 'rare'", "recall of 'rare'", "macro F1")
    ]
    assert columns_of(rows)["recall of 'rare'"] == [[1.0] * 3, [0.0] * 3]
    assert "recall of 'rare'" in (tmp_path / "report.md").read_text()
    assert unlearnt(rows[:1]) == []
