"""Experiment files: loading, recording, refusals."""

import dataclasses
import gc
import json
import re

import pytest
from word_replacement import ImbalanceAblation, SynonymPairs

from dicejax import config
from dicejax.data.resample import DownSampling
from dicejax.data.synthetic import SyntheticNER
from dicejax.errors import InputError
from dicejax.formats import ConllFiles, TextFiles
from dicejax.models.bert import BertConfig
from dicejax.objectives import CrossEntropy, Dice, SelfAdjustingDice
from dicejax.tasks import Classification

EXPERIMENTS = [
    config.Experiment(name="a", data=SyntheticNER(seed=3)),
    config.Experiment(
        name="b",
        data=ConllFiles(dir="x", scheme="IOBES"),
        encoder=config.PretrainedEncoder(path="y", hidden_dropout_prob=0.2),
        objective=SelfAdjustingDice(alpha=0.5, over="element"),
        compared=(CrossEntropy(label_smoothing=0.1), Dice(squared=True)),
        training=config.Training(precision="bfloat16", seed=4),
    ),
    config.Experiment(
        name="c",
        data=TextFiles(
            dir="x", separator="\t", first=3, label=0, names=("a", "b"), dev=None
        ),
        task=Classification(positive="1"),
        augmentation=ImbalanceAblation(
            variant="+negative", synonyms=SynonymPairs(path="pairs.tsv")
        ),
        sampling=DownSampling(ratio=3),
    ),
    config.Experiment(name="d", data=SyntheticNER(), encoder=BertConfig(vocab_size=50)),
]


@pytest.mark.parametrize(
    "experiment", EXPERIMENTS, ids=lambda experiment: experiment.name
)
def test_json_keeps_everything(experiment):
    assert config.from_json(config.to_json(experiment)) == experiment


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"epochs"', '"epoch_count"', r"f.json: .*epoch_count"),
        ('"CrossEntropy"', '"Dices"', r"f.json: .*Dices"),
        ('"max_length"', '"row_length"', "row_length is now max_length"),
        ("{", "{\n3", r"f.json:2: not JSON"),
    ],
)
def test_unknown_fields_types_and_bad_json_are_named(old, new, message):
    text = config.to_json(EXPERIMENTS[0])
    with pytest.raises(InputError, match=message):
        config.from_json(text.replace(old, new, 1), "f.json")


@pytest.mark.parametrize(
    ("earlier", "now"),
    [
        (
            {"type": "TabSeparatedFiles", "separator": "\t", "quoted": False},
            TextFiles(dir="x", separator="\t", quoted=False),
        ),
        (
            {"type": "FastTextFiles", "multi_label": True},
            TextFiles(dir="x", layout="fasttext", multi_label=True),
        ),
    ],
)
def test_records_name_data_sources_of_earlier_versions(earlier, now):
    names = {name: f"{name}.txt" for name in ("train", "dev", "test")}
    record = {"name": "mine", "data": {"dir": "x", **names, **earlier}}
    assert config.from_json(json.dumps(record)).data == now


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("x = 1", "defines no get_config"),
        ("def get_config():\n    return 3", "gives int, not an Experiment"),
        ("def get_config(:", r"e.py:1: "),
        ("import nothing_like_it", r"e.py:1: ModuleNotFoundError"),
        (
            "import dicejax.config as c\n\ndef get_config():\n    c.Training(epochs=0)",
            r"e.py:4: ValueError: epochs is 0; want at least 1",
        ),
        (
            "import dicejax.config as c\nc.Training(seed=-1)",
            r"e.py:2: ValueError: seed is -1; want at least 0",
        ),
        (
            f"import dicejax.config as c\nc.Training(seed={2**64})",
            rf"e.py:2: ValueError: seed is {2**64}; want at least 0 and 63 bits",
        ),
        (
            "import dicejax.config as c\nc.Training(most_skipped=0)",
            r"e.py:2: TypeError.*; most_skipped is now max_consecutive_skips",
        ),
        (
            "from dicejax.formats import JsonTexts",
            r"e.py:1: ImportError.*; JsonTexts is now TextFiles\(layout='json'\)",
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_its_line(tmp_path, content, message):
    file = tmp_path / "e.py"
    file.write_text(content)
    with pytest.raises(InputError, match=message):
        config.load(file)


OF_ITS_OWN = """
import dataclasses
import json
import gc

from dicejax.config import Experiment
from dicejax.data.synthetic import SyntheticNER


@dataclasses.dataclass(frozen=True, kw_only=True)
class OfThisFile(SyntheticNER):
    pass


def get_config():
    return Experiment(name="own", data=OfThisFile(train=7))
"""


def test_a_run_with_a_class_of_an_experiment_file_wants_that_file(tmp_path):
    file = tmp_path / "own.py"
    file.write_text(OF_ITS_OWN)
    built_in = config.Experiment(name="own", data=SyntheticNER(train=7))
    text = config.to_json(built_in).replace("SyntheticNER", "OfThisFile")
    with pytest.raises(InputError, match=r"no class is called 'OfThisFile'.*\$.data"):
        config.from_json(text)
    with config.classes_of(file):
        gc.collect(1)  # a new class goes when nothing holds it
        experiment = config.from_json(text)
    assert experiment.data.train == 7
    assert type(experiment.data).__name__ == "OfThisFile"
    assert config.to_json(experiment) == text


def test_a_class_of_a_module_next_to_the_file_is_recorded(tmp_path):
    module = OF_ITS_OWN.replace("OfThisFile", "OfTheModule")
    (tmp_path / "module_next_to_own.py").write_text(module)
    (tmp_path / "own.py").write_text("from module_next_to_own import get_config\n")
    experiment = config.load(tmp_path / "own.py")
    assert config.from_json(config.to_json(experiment)) == experiment
    assert '"type": "OfTheModule"' in config.to_json(experiment)


def test_a_file_of_classes_that_fails_or_is_not_there_is_named(tmp_path):
    (tmp_path / "own.py").write_text("zero = 0\nratio = 1 / zero\n")
    errors = {"own.py": ":2: ZeroDivisionError", "none.py": ": no such experiment file"}
    for name, error in errors.items():
        file, refused = tmp_path / name, pytest.raises(InputError, match=name + error)
        with refused, config.classes_of(file):
            pytest.fail("nothing runs with half of the classes")
        with refused:
            config.load(file)


def test_experiments_are_hashable_and_frozen():
    assert len({*EXPERIMENTS, *EXPERIMENTS}) == len(EXPERIMENTS) == 4
    with pytest.raises(dataclasses.FrozenInstanceError):
        EXPERIMENTS[0].name = "c"


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"remat": True}, "remat is True; supported: 'none', 'attention', 'layer'"),
        ({"epochs": 2.5}, "epochs is 2.5; want a whole number"),
        ({"precision": "fp8"}, "precision is 'fp8'; supported: 'float32', 'bfloat16'"),
    ],
)
def test_settings_of_another_type_are_refused(setting, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        config.Training(**setting)
