"""`rerun.py` is Python that gives the same experiment, whatever is in it."""

import ast
import dataclasses

import pytest

from dicejax import config
from dicejax.data.synthetic import SyntheticNER
from dicejax.formats import ConllFiles
from dicejax.objectives import CrossEntropy, Dice, FromPrior, WeightedSum
from dicejax.study.report.code import experiment_file

from .made_runs import EXPERIMENT

TEXTS = ["plain", "a \"b\" 'c'", "back\\slash", 'x"""\nimport os']
TEXTS += ["\u202eabc\x1b", "é😀"]


@pytest.mark.parametrize("text", TEXTS)
def test_the_file_gives_the_same_experiment(tmp_path, text):
    compared = (
        CrossEntropy(),
        FromPrior(Dice(smooth=0.25)),
        WeightedSum(parts=(Dice(), CrossEntropy()), weights=(1.0, 0.5)),
    )
    data = ConllFiles(dir=text)
    experiment = dataclasses.replace(EXPERIMENT, data=data, compared=compared)
    text = experiment_file(experiment, "About it.")
    (tmp_path / "rerun.py").write_text(text)
    assert config.load(tmp_path / "rerun.py") == experiment
    assert "\u202e" not in text and "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 88
    # Every setting is a keyword that can be edited.
    (call,) = [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and node.func.id == "AdamW"
    ]
    fields = {field.name for field in dataclasses.fields(experiment.optimizer)}
    assert {keyword.arg for keyword in call.keywords} == fields


def test_a_class_of_an_experiment_file_is_imported_from_there(tmp_path, monkeypatch):
    source = (
        "import dataclasses\nfrom dicejax.config import Experiment, ScratchEncoder\n"
        "from dicejax.data.synthetic import SyntheticNER\n\n\n"
        "@dataclasses.dataclass(frozen=True, kw_only=True)\n"
        "class MineOfATest(SyntheticNER):\n    more: int = 1\n\n\n"
        "def get_config():\n    return Experiment(\n        name='x',"
        " data=MineOfATest(), encoder=ScratchEncoder(),\n    )\n"
    )
    (tmp_path / "mine_of_a_test.py").write_text(source)
    experiment = config.load(tmp_path / "mine_of_a_test.py")
    text = experiment_file(experiment, "About it.")
    line = "from experiment_file import MineOfATest"
    assert f"# Put the name of the experiment file that defines it.\n{line}\n" in text
    assert SyntheticNER.__name__ not in text
    (tmp_path / "rerun.py").write_text(
        text.replace("experiment_file", "mine_of_a_test")
    )
    again = config.load(tmp_path / "rerun.py")
    assert type(again.data).__name__ == "MineOfATest" and again.data.more == 1
