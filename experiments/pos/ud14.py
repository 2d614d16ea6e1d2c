r"""UD Chinese 1.4 (GSD): segmentation and parts of speech at once.

Each character gets a tag; a word counts where its borders and its part of speech are
right, and the scores are micro precision, recall and F1 over words, as in the paper.

command:  dicejax compare experiments/pos/ud14.py --data.dir FOLDER
data:     train.conllu, dev.conllu and test.conllu of release 1.4.
paper:    F1 94.79 ce, 96.58 wce, 96.81 focal, 96.94 dice, 96.98 dsc (Table 3).
measured: with a multilingual BERT (12 layers, 384 wide), 2,000 sentences, rate 2e-4,
          2 epochs (docs/evidence/rows.py):
          docs/evidence/scores/rows/ud14-multilingual-250, F1 of 3 seeds: 79.81 ce,
          83.24 ce+prior, 81.28 wce, 79.82 focal, 74.40 dl, 75.62 dsc-official.
          Archived nowhere: F1 75.43 with cross-entropy, 1 seed, of a BERT of 2 layers
          from random weights, 20 epochs; see experiments/README.md. Ten losses with
          that one: docs/evidence/earlier.md. The settings below have not been run.
"""

from dicejax.config import Experiment, PretrainedEncoder, Training
from dicejax.formats import ConllFiles
from dicejax.objectives import (
    CrossEntropy,
    Dice,
    Focal,
    SelfAdjustingDice,
    WeightedCrossEntropy,
)
from dicejax.optimizers import AdamW
from dicejax.tasks import JointTagging


def get_config() -> Experiment:
    return Experiment(
        name="ud14",
        data=ConllFiles(
            dir="data/ud_chinese_1.4",
            train="train.conllu",
            dev="dev.conllu",
            test="test.conllu",
            layout="conllu",
        ),
        task=JointTagging(),
        encoder=PretrainedEncoder(path="bert-base-chinese"),
        objective=SelfAdjustingDice(alpha=0.01, smooth=1.0),
        compared=(
            CrossEntropy(),
            WeightedCrossEntropy(),
            Focal(),
            Dice(smooth=1.0, squared=True),
            SelfAdjustingDice(alpha=0.01, smooth=1.0),
        ),
        optimizer=AdamW(learning_rate=2e-5, warmup=0.1, weight_decay=0.01),
        training=Training(
            epochs=5, batch_size=32, max_length=256, precision="bfloat16"
        ),
    )
