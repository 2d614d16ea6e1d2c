"""Experiment files import modules next to them."""

from dicejax import config

MODULE = """
import dataclasses

from dicejax.data.sources import SyntheticNER


@dataclasses.dataclass(frozen=True, kw_only=True)
class OfTheModule(SyntheticNER):
    pass
"""
FILE = """
from dicejax.config import Experiment
from module_next_to_own import OfTheModule


def get_config():
    return Experiment(name="own", data=OfTheModule(train=7))
"""


def test_a_class_of_a_module_in_another_folder_is_recorded(tmp_path):
    (tmp_path / "module_next_to_own.py").write_text(MODULE)
    (tmp_path / "own.py").write_text(FILE)
    experiment = config.load(tmp_path / "own.py")
    assert config.from_json(config.to_json(experiment)) == experiment
    assert '"type": "OfTheModule"' in config.to_json(experiment)
