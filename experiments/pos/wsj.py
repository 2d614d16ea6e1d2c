r"""Parts of speech of the Wall Street Journal in the Penn Treebank.

A word is a span of its own: precision, recall and F1 are those of words.

command:  dicejax compare experiments/pos/wsj.py --data.dir FOLDER
data:     train.txt (sections 0-18), dev.txt (19-21) and test.txt (22-24) with a word
          and its tag on each line, an empty line between sentences. The corpus is the
          LDC's, and licensed; other columns are named by --data.label_column.
paper:    F1 98.86 ce, 98.88 focal, 98.91 dice, 99.38 dsc (Table 4 of the ACL edition).
measured: not run: the data is licensed.
"""

from dicejax.config import Experiment, PretrainedEncoder, Training
from dicejax.formats import ConllFiles
from dicejax.objectives import CrossEntropy, Dice, Focal, SelfAdjustingDice
from dicejax.optimizers import AdamW
from dicejax.tasks import WordTagging


def get_config() -> Experiment:
    return Experiment(
        name="wsj",
        data=ConllFiles(dir="data/wsj", layout="labels"),
        task=WordTagging(),
        encoder=PretrainedEncoder(path="bert-base-cased"),
        objective=SelfAdjustingDice(alpha=0.01, smooth=1.0),
        compared=(
            CrossEntropy(),
            Focal(),
            Dice(smooth=1.0, squared=True),
            SelfAdjustingDice(alpha=0.01, smooth=1.0),
        ),
        optimizer=AdamW(learning_rate=3e-5, warmup=0.1, weight_decay=0.01),
        training=Training(
            epochs=3, batch_size=32, max_length=256, precision="bfloat16"
        ),
    )
