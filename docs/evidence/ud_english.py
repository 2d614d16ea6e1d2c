"""Parts of speech of UD English EWT by macro F1, set 3 of the third protocol."""

from macro_tagging import MacroWordTagging  # next to this file

from dicejax.config import Experiment, PretrainedEncoder
from dicejax.formats import ConllFiles
from dicejax.objectives import CrossEntropy


def get_config() -> Experiment:
    """Return the experiment."""
    return Experiment(
        name="ud_english",
        data=ConllFiles(
            dir="data/ud_english_ewt",
            train="train.conllu",
            dev="dev.conllu",
            test="test.conllu",
            layout="conllu",
        ),
        task=MacroWordTagging(),
        encoder=PretrainedEncoder(path="bert-base-cased"),
        objective=CrossEntropy(),
    )
