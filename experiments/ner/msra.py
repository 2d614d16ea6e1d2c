r"""MSRA Chinese NER as machine reading.

The task of BERT-MRC: each type of entity has a query, and its spans are found by a
start, an end, and a match of the two. The queries are ours; others do as well, with
--task.queries.

command:  dicejax compare experiments/ner/msra.py --data.dir FOLDER
data:     train.txt (or train.txt.gz) and test.txt with a character and its tag (BIO) on
          each line. There is no dev split: a tenth of train is held out.
paper:    F1 95.75 ce, 95.43 wce, 95.67 focal, 96.44 dice, 96.72 dsc (Table 4).
measured: with a small multilingual encoder, 1,350 sentences, 1,000 of test, rate 2e-4,
          heads ten times that, 2 epochs (docs/evidence/rows.py):
          docs/evidence/scores/rows/msra_reading-multilingual-250, F1 of 3 seeds: 0.00
          ce, 47.30 ce+prior, 54.65 dl-set, 50.08 dsc-official. In these 260 updates
          cross-entropy from zeros learns nothing. By tagging
          (docs/evidence/msra_tagging.py), 2,700 sentences:
          docs/evidence/scores/rows/msra_tagging-multilingual-338, F1 of 3 seeds: 61.11
          ce, 64.75 ce+prior, 0.00 dl, 13.80 dsc-official. The settings below have not
          been run.
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
    ("LOC", "国家、省、市、山川等地方的名称"),
    ("ORG", "公司、政府、党派、学校等机构的名称"),
    ("PER", "真实人物或虚构人物的姓名"),
)


def get_config() -> Experiment:
    return Experiment(
        name="msra",
        data=ConllFiles(dir="data/msra", dev=None, stratified=False),
        task=MachineReading(queries=QUERIES),
        encoder=PretrainedEncoder(path="bert-base-chinese"),
        objective=SelfAdjustingDice(alpha=0.01, smooth=1.0),
        compared=(
            CrossEntropy(),
            WeightedCrossEntropy(),
            Focal(),
            Dice(smooth=1.0, squared=True),
            SelfAdjustingDice(alpha=0.01, smooth=1.0),
        ),
        optimizer=AdamW(learning_rate=2e-5, warmup=0.02, weight_decay=0.002),
        training=Training(
            epochs=5,
            batch_size=30,
            max_length=275,
            precision="bfloat16",
        ),
    )
