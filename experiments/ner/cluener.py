r"""CLUENER2020 Chinese NER with two pointers: where an entity starts, where it ends.

The task and the losses of the comparison article: the end sees the gold start while
training.

command:  dicejax compare experiments/ner/cluener.py --data.dir FOLDER
data:     train.json and dev.json as released. The test file has no labels: dev is
          reported, and a tenth of train is held out to select the checkpoint.
paper:    F1 79.93 ce, 80.66 ce with label smoothing 0.1, 80.43 focal, 79.95 ghm, one
          seed each, checkpoint selected on the split reported (NER_loss_compare).
measured: with a multilingual BERT of 12 layers, 384 wide, 1,500 sentences, 3 epochs
          (docs/evidence/rows.py):
          docs/evidence/scores/rows/cluener_pointers-multilingual-282, F1 of 3 seeds:
          14.05 ce, 45.55 focal, 5.36 ghm.
          Archived nowhere: a BERT of 2 layers, 128 wide, from random weights, 12
          epochs, rate 1e-3, 2 CPU cores, 1 seed: F1 53.39 with cross-entropy; see
          experiments/README.md. Ten losses on a part of train, 5 seeds:
          docs/evidence/earlier.md. The settings below have not been run.
"""

from cluener_files import CluenerFiles  # next to this file

from dicejax.config import Experiment, PretrainedEncoder, Training
from dicejax.objectives import GHM, CrossEntropy, Focal, SelfAdjustingDice
from dicejax.optimizers import AdamW
from dicejax.tasks import TwoPointerNER


def get_config() -> Experiment:
    return Experiment(
        name="cluener",
        data=CluenerFiles(dir="data/cluener2020"),
        task=TwoPointerNER(),
        encoder=PretrainedEncoder(path="bert-base-chinese"),
        objective=CrossEntropy(),
        compared=(
            CrossEntropy(),
            CrossEntropy(label_smoothing=0.1),
            Focal(),
            GHM(),
            SelfAdjustingDice(alpha=0.01, smooth=1.0),
        ),
        optimizer=AdamW(learning_rate=5e-5, warmup=0.0, weight_decay=0.0),
        training=Training(
            epochs=8, batch_size=128, max_length=128, precision="bfloat16"
        ),
    )
