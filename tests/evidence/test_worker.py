"""The worker of the third protocol, its cargo, and models beside it."""

import collections
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import dicejax as dj

from .. import newcomer
from ..documented import ROOT, write_encoder
from .conftest import EVIDENCE


@pytest.fixture
def small_work(tmp_path):
    """Return a function that makes a checkout with small data, and its command."""
    data = tmp_path / "DATA" / "conll2003"
    data.mkdir(parents=True)
    for split in ("train", "dev", "test"):
        newcomer.write(data / f"{split}.txt", sentences=200)
    write_encoder(tmp_path / "model")

    def made(name):
        folder = tmp_path / name / "docs" / "evidence"
        folder.mkdir(parents=True)
        for script in EVIDENCE.glob("*.py"):
            shutil.copy(script, folder)
        (tmp_path / name / "experiments").symlink_to(ROOT / "experiments")
        words = ["worker.py", "--data", tmp_path / "DATA", "--encoders", "minilm"]
        words += [tmp_path / "model", "--runs", folder / "runs", "--smallest"]
        return folder, [sys.executable, *map(str, words)]

    return made


def done(said):
    """Return the lines of a worker that are on runs."""
    return [line for line in said.splitlines() if "CPU" in line]


def work(folder, command, *more):
    """Let a worker do all runs; return what it says and its archives, without times."""
    paths = os.pathsep.join([str(ROOT), *sys.path])
    environment = os.environ | {"PYTHONPATH": paths}
    process = subprocess.run(
        [*command, *more], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert process.returncode == 0, process.stdout + process.stderr[-3000:]
    scores = folder / "scores" / "third"
    trials = scores / "conll2003-minilm-trials.jsonl"
    lines = [json.loads(line) for line in trials.read_text().splitlines()]
    untimed = [{k: v for k, v in line.items() if k != "seconds"} for line in lines]
    untimed.sort(key=lambda x: [x[k] for k in ("arm", "rate", "factor", "seed")])
    with np.load(scores / "conll2003-minilm-64.npz") as arrays:
        runs = json.loads(arrays["content"].item())["runs"]
        counts = arrays["counts"]
    for run in runs:
        assert run["result"].pop("seconds") > 0
    return process.stdout, (untimed, runs, counts.tobytes())


@pytest.mark.slow
def test_a_worker_archives_runs_until_none_is_left(
    small_work, archive, evidence, monkeypatch, capsys, tmp_path
):
    third, worker = evidence("third"), evidence("worker")
    best = third.Setting(2e-4, 10.0)
    monkeypatch.setattr(third, "searched", lambda scores, encoder: ([], best))
    folder, command = small_work("here")
    (archive.SCORES / "third").mkdir()
    words = [*command[2:], "--stop", str(folder / "S")]
    (folder / "S").touch()
    assert worker.main(words) == 0
    said = capsys.readouterr().out
    assert not done(said)
    assert "conll2003-mpnet: left out, --encoders names no mpnet" in said
    assert "ud_english-minilm: left out, there is no folder" in said
    (folder / "S").unlink()
    assert worker.main(words) == 0
    said = done(capsys.readouterr().out)
    arms, seeds = ["ce+prior", "dsc"], [30, 31]
    assert [line.split()[1].split("/")[2] for line in said] == 2 * arms
    runs = archive.read("third/conll2003-minilm-64").runs
    assert [(x.loss, x.seed) for x in runs] == [*itertools.product(arms, seeds)]
    for run in runs:
        above, below = run.example_statistics[:, 0].sum(0)
        assert run.score == pytest.approx(above / below if below else 0.0)
        assert run.result["versions"]["jax"]
        assert run.result["settings"] == {"rate": 2e-4, "factor": 10.0}
    # Another machine's archives are added; its run must be that which ours has.
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    file = archive.file_of("third/conll2003-minilm-64")
    file.rename(theirs / file.name)
    worker.main(["--merge", str(theirs)])
    assert (theirs / file.name).read_bytes() == file.read_bytes()
    assert worker.main(["--data", "DATA", "--encoders", "other", "MODEL"]) == 2


def test_cargo_is_unpacked_as_it_was_packed(
    evidence, small_work, monkeypatch, tmp_path
):
    cargo = evidence("cargo")
    small_work("here")
    monkeypatch.setattr(cargo, "PART", 5_000)
    model, packed, out = tmp_path / "model", tmp_path / "c" / "cargo", tmp_path / "out"
    (model / "1_Pooling").mkdir()
    (model / "1_Pooling" / "config.json").write_text("{}")
    words = ["--data", tmp_path / "DATA", "conll2003", "--encoders", "minilm", model]
    cargo.main([*map(str, ("pack", packed, *words))])
    parts = sorted(packed.parent.iterdir())
    assert len(parts) > 1
    assert all(part.stat().st_size <= 5_000 for part in parts)
    cargo.main(["unpack", str(packed), str(out)])
    for folder, ours in ((tmp_path / "DATA", out / "data"), (model, out / "minilm")):
        files = {f.relative_to(folder) for f in folder.rglob("*") if f.is_file()}
        assert files == {f.relative_to(ours) for f in ours.rglob("*") if f.is_file()}
        assert len(files) >= 3
        for name in files:
            assert (ours / name).read_bytes() == (folder / name).read_bytes()


def test_a_frozen_encoder_is_read_by_the_mean_over_tokens(
    evidence, tmp_path, monkeypatch
):
    module = evidence("regressions")
    monkeypatch.setattr(module, "ROWS", 2)
    write_encoder(tmp_path / "model")
    states = module.States(tmp_path / "model")
    texts = ["a b", "c d e f g h i j k l m n o p q r", "x", "a b"]
    means = states.of(texts)
    model, params, tokenizer = dj.from_pretrained(
        tmp_path / "model", {"tags": dj.TokenHead(classes=2)}
    )
    for text, mean in zip(texts, means, strict=True):
        ids = np.array([tokenizer.encode(text).ids])
        ones, places = np.ones_like(ids), np.arange(ids.shape[1])[None]
        keys = ("input_ids", "segment_ids", "position_ids", "token_type_ids")
        batch = dict(zip(keys, (ids, ones, places, 0 * ones), strict=True))
        alone = model.hidden_states(params, batch)[-1, 0].mean(0)
        np.testing.assert_allclose(mean, alone, rtol=1e-5, atol=1e-6)


def test_a_regression_takes_the_settings_that_are_best_on_dev(evidence):
    module, rng = evidence("regressions"), np.random.default_rng(0)
    gold = {split: rng.random(400) < 0.1 for split in module.SPLITS}
    features = {
        split: np.c_[2 * is_positive + rng.normal(size=400), rng.normal(size=(400, 5))]
        for split, is_positive in gold.items()
    }
    chosen = module.regression(features, gold)
    by_hand = []
    for c, weights in itertools.product(module.PENALTIES, module.WEIGHTS):
        model = LogisticRegression(C=c, class_weight=weights, max_iter=2000)
        model.fit(features["train"], gold["train"])
        dev, y = model.decision_function(features["dev"]), gold["dev"]
        decided = dev >= dev[:, None]  # a row for each threshold
        scores = 2 * (decided & y).sum(1) / (decided.sum(1) + y.sum())
        by_hand.append((max(scores), model, dev[np.argmax(scores)]))
    best, model, limit = max(by_hand, key=lambda entry: entry[0])
    assert chosen.settings["dev"] == pytest.approx(best)
    ours, theirs = chosen.decisions, model.decision_function(features["test"]) >= limit
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.exhaustive
def test_a_worker_does_what_is_left_and_archives_merge(small_work):
    first, command = small_work("first")
    said, (trials, runs, _) = work(first, command)
    assert len(done(said)) == len(trials) + len(runs)
    assert {run["loss"] for run in runs} == {"ce+prior", "dsc"}
    chosen = {run["loss"]: run["result"]["settings"] for run in runs}
    for arm, settings in chosen.items():
        means = collections.defaultdict(list)
        for line in trials:
            if line["arm"] == arm:
                means[line["rate"], line["factor"]].append(line["dev"])
        whole = {k: np.mean(v) for k, v in means.items() if len(v) == 3}
        best = settings["rate"], settings["factor"]
        assert whole[best] == max(whole.values())
    assert all(run["result"]["versions"]["jax"] for run in runs)
    assert not [*first.glob("runs/**/checkpoints")]
    again, _ = work(first, command)
    assert not done(again)  # nothing is left
    (first / "STOP").touch()
    # Another machine has the trials and does the runs; this one adds its archives.
    other, command = small_work("other")
    theirs = other / "scores" / "third"
    theirs.mkdir(parents=True)
    shutil.copy(first / "scores/third/conll2003-minilm-trials.jsonl", theirs)
    said, both = work(other, command)
    assert len(done(said)) == len(runs)
    (first / "scores/third/conll2003-minilm-64.npz").unlink()
    _, merged = work(first, command, "--merge", theirs)
    assert merged == both


@pytest.mark.exhaustive
def test_a_worker_that_is_killed_ends_with_the_same_scores(small_work):
    whole, command = small_work("whole")
    _, undisturbed = work(whole, command)
    killed, command = small_work("killed")
    paths = os.pathsep.join([str(ROOT), *sys.path])
    rng, kills = random.Random(0), 0
    while kills < 5:
        process = subprocess.Popen(
            command,
            cwd=killed,
            env=os.environ | {"PYTHONPATH": paths},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        # In the middle of a run, whose folder is there.
        while not [*killed.glob("runs/**/metrics.jsonl")] and process.poll() is None:
            time.sleep(0.01)
        time.sleep(rng.random())
        assert process.poll() is None
        process.kill()
        process.wait()
        kills += 1
    _, disturbed = work(killed, command)
    assert disturbed == undisturbed
