"""Entities of MSRA by tagging, set 4 of the third protocol."""

from dicejax.config import Experiment, PretrainedEncoder
from dicejax.formats import ConllFiles
from dicejax.objectives import CrossEntropy
from dicejax.tasks import Tagging


def get_config() -> Experiment:
    """Return the experiment.

    Test is the text in the form of train, with half-width digits and letters.
    """
    return Experiment(
        name="msra_tagging",
        data=ConllFiles(dir="data/msra", dev=None, test="test_same_preprocessing.txt"),
        task=Tagging(),
        encoder=PretrainedEncoder(path="bert-base-multilingual-cased"),
        objective=CrossEntropy(),
    )
