"""An update rule of an experiment file, by the file of docs/own-optimizer.md."""

import json

import optax
import pytest

from dicejax.cli import run
from dicejax.config import load
from dicejax.optimizers import decay_mask

from .. import documented
from . import trees


@pytest.fixture
def lion(tmp_path, monkeypatch):
    (page,) = [
        block
        for block in documented.blocks("docs/own-optimizer.md")
        if block.title == "lion.py"
    ]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lion.py").write_text(page.text)
    return tmp_path


def test_it_trains_and_is_read_again(lion, capsys):
    flags = ["--data.train", "8", "--data.dev", "4", "--data.test", "4"]
    flags += ["--training.batch_size", "4", "--training.epochs", "1"]
    flags += ["--encoder.hidden_size", "8", "--encoder.num_attention_heads", "1"]
    rule = ["--optimizer", "lion", "--optimizer.b1", "0.5"]
    assert run(["train", "lion.py", "--out", "run", *rule, *flags]) == 0
    result = json.loads((lion / "run/result.json").read_text())
    record = json.loads((lion / "run/experiment.json").read_text())["optimizer"]
    assert (record["type"], record["b1"]) == ("Lion", 0.5)
    assert record["learning_rate"] == 1e-5  # the class's, not the experiment's
    capsys.readouterr()
    assert run(["evaluate", "run", "--experiment", "lion.py", "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["f1"] == result["test"]["f1"]


def test_a_whole_optimizer_of_optax_changes_its_sign(lion):
    optimizer = load("lion.py").optimizer
    params, *gradients = (trees.on_device(trees.tree(seed)) for seed in range(4))
    settings = {"weight_decay": optimizer.weight_decay, "mask": decay_mask}
    whole = optax.chain(optax.lion(1.0, 0.9, 0.99, **settings), optax.scale(-1.0))
    decay = optax.add_decayed_weights(optimizer.weight_decay, decay_mask)
    rules = whole, optax.chain(optimizer.rule(), decay)
    states = [rule.init(params) for rule in rules]
    for gradient in gradients:
        pairs = zip(rules, states, strict=True)
        results = [rule.update(gradient, state, params) for rule, state in pairs]
        (theirs, ours), states = zip(*results, strict=True)
        trees.same(ours, theirs)
