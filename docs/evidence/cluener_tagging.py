"""Entities of CLUENER2020 by tagging, set 5 of the third protocol."""

from pathlib import Path

from dicejax import config
from dicejax.config import Experiment, PretrainedEncoder
from dicejax.objectives import CrossEntropy
from dicejax.tasks import Tagging

CLUENER = Path(__file__).parents[2] / "experiments/ner/cluener.py"


def get_config() -> Experiment:
    """Return the experiment; dev as released is test, which has no labels."""
    return Experiment(
        name="cluener_tagging",
        data=config.load(CLUENER).data,
        task=Tagging(),
        encoder=PretrainedEncoder(path="bert-base-multilingual-cased"),
        objective=CrossEntropy(),
    )
