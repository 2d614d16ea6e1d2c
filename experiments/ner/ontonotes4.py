r"""OntoNotes 4.0 Chinese NER as machine reading.

The task of BERT-MRC: each type of entity has a query, and its spans are found by a
start, an end, and a match of the two. The queries are ours; others do as well, with
--task.queries.

command:  dicejax compare experiments/ner/ontonotes4.py --data.dir FOLDER
data:     train.txt, dev.txt and test.txt with a character and its tag (BMES or BIO) on
          each line, in the split of Che et al. (2013). The corpus is the LDC's, and
          licensed.
paper:    F1 82.11 ce, 83.66 wce, 83.30 focal, 84.47 dsc (Table 4).
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
from dicejax.tasks import MachineReading

QUERIES = (
    ("GPE", "国家、省、州、城市的名称"),
    ("LOC", "山脉、河流、海洋、地区的名称"),
    ("ORG", "公司、政府、党派、学校、媒体等机构的名称"),
    ("PER", "真实人物或虚构人物的姓名"),
)


def get_config() -> Experiment:
    return Experiment(
        name="ontonotes4",
        data=ConllFiles(dir="data/ontonotes4"),
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
        optimizer=AdamW(learning_rate=2e-5, warmup=0.1, weight_decay=0.002),
        training=Training(
            epochs=5,
            batch_size=16,
            max_length=300,
            precision="bfloat16",
        ),
    )
