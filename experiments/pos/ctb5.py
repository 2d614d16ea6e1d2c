r"""Chinese Treebank 5.0: segmentation and parts of speech at once.

Each character gets a tag; a word counts where its borders and its part of speech are
right, and the scores are micro precision, recall and F1 over words, as in the paper.

command:  dicejax compare experiments/pos/ctb5.py --data.dir FOLDER
data:     train.txt, dev.txt and test.txt with a character and its tag on each line,
          separated by a tab or spaces: B-NN, M-NN, E-NN or S-NN; an empty line between
          sentences. The corpus is the LDC's, and licensed.
paper:    F1 96.06 ce, 96.43 wce, 96.76 focal, 97.81 dice, 97.92 dsc (Table 3).
measured: not run: the data is licensed.
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
        name="ctb5",
        data=ConllFiles(dir="data/ctb5", scheme="BMES"),
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
