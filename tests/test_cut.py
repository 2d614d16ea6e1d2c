"""What is cut off is said last by the commands, and stays in the result."""

import json

from dicejax.cli import run

EXPERIMENT = """
from dicejax.config import Experiment, ScratchEncoder, Training
from dicejax.data.sources import CsvFiles
from dicejax.tasks import Classification


def get_config():
    return Experiment(
        name="pairs",
        data=CsvFiles(dir={folder!r}, first="one", second="two"),
        task=Classification(),
        encoder=ScratchEncoder(vocab_size=60, hidden_size=32, intermediate_size=64,
                               num_hidden_layers=1, dropout=0.0),
        training=Training(epochs=1, batch_size=8, max_length=12),
    )
"""


def test_pairs_that_are_cut_are_counted_in_the_last_lines(tmp_path, capsys):
    pairs = [("a b", "a"), ("b", "a " * 5), ("a " * 6, "b " * 4), ("b a", "b " * 20)]
    lengths = [3 + len(f"{one} {two}".split()) for one, two in pairs]
    assert sum(length > 12 for length in lengths) == 2
    rows = [f"{one},{two},{n % 2}\n" for n, (one, two) in enumerate(pairs * 2)]
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.csv").write_text("one,two,label\n" + "".join(rows))
    (tmp_path / "pairs.py").write_text(EXPERIMENT.format(folder=str(tmp_path)))
    out = str(tmp_path / "run")
    assert run(["train", str(tmp_path / "pairs.py"), "--out", out]) == 0

    cut = [
        f"4 of 8 {split} pairs (50%) are cut off at 12 tokens; raise "
        "--training.max_length"
        for split in ("train", "dev", "test")
    ]
    lines = capsys.readouterr().err.splitlines()
    assert lines[-3:] == [f"warning: {text}" for text in cut]
    result = json.loads((tmp_path / "run/result.json").read_text())
    assert result["cut"] == cut
    for flags in ([], ["--json"]):
        assert run(["evaluate", out, *flags]) == 0
        assert capsys.readouterr().err.splitlines() == [f"warning: {cut[2]}"]
    assert run(["predict", out, "a b\tb", "b " * 20 + "\ta"]) == 0
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith("warning: 1 of 2 given pairs (50%) are cut off at 12 tokens")
