r"""How the Tversky index depends on its alpha, the weight of false positives.

command:  dicejax compare experiments/ablations/tversky_alpha.py --data.dir FOLDER
data:     as for ner/ontonotes4.py, which is licensed. Any other experiment can take
          these losses: --loss tversky --objective.alpha 0.3 --objective.beta 0.7.
paper:    F1 80.13 81.17 84.22 84.52 84.47 84.67 81.81 80.97 80.21 on OntoNotes4 and
          63.23 63.45 65.88 68.44 67.52 66.35 65.09 64.13 64.84 on Quoref for alpha 0.1
          to 0.9, beta 1 - alpha (Table 8).
measured: not run: the data is licensed. The same on a part of
          CoNLL-2003: docs/evidence/earlier.md.
"""

from dicejax.config import Experiment, PretrainedEncoder, Training
from dicejax.formats import ConllFiles
from dicejax.objectives import Tversky
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
        name="tversky_alpha",
        data=ConllFiles(dir="data/ontonotes4"),
        task=MachineReading(queries=QUERIES),
        encoder=PretrainedEncoder(path="bert-base-chinese"),
        objective=Tversky(alpha=0.5, beta=0.5, smooth=1.0),
        compared=tuple(
            Tversky(alpha=tenths / 10, beta=1 - tenths / 10, smooth=1.0)
            for tenths in range(1, 10)
        ),
        optimizer=AdamW(learning_rate=2e-5, warmup=0.1, weight_decay=0.002),
        training=Training(
            epochs=5, batch_size=16, max_length=300, precision="bfloat16"
        ),
    )
