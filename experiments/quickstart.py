"""Losses on a synthetic corpus with disputed names: a first look that needs no data.

command:  dicejax compare experiments/quickstart.py --seeds 5
measured: archived nowhere: on a Xeon with AMX, test F1 of 5 seeds: 61.10 +- 2.43 with
          cross-entropy, 66.37 +- 0.84 with self-adjusting dice, 67.10 +- 0.60 with a
          tuned threshold, 67.74 with a logistic regression on words, of which it says:
          "no fine-tuned encoder is shown to beat it".
"""

from dicejax.config import Experiment, ScratchEncoder, Training
from dicejax.data.synthetic import SyntheticNER
from dicejax.objectives import CrossEntropy, FromPrior, SelfAdjustingDice
from dicejax.optimizers import AdamW


def get_config() -> Experiment:
    return Experiment(
        name="quickstart",
        # Names of which annotators dispute four in five: `O` is the likeliest tag of
        # such a name, though F1 is higher where all are found.
        data=SyntheticNER(train=8000, o_per_entity=20.0, own_names=10, disputed=0.8),
        encoder=ScratchEncoder(
            hidden_size=64,
            num_hidden_layers=1,
            intermediate_size=256,
            dropout=0.0,
        ),
        # A batch holds about three words of each label. `smooth` is in units of counts:
        # at 1, the published value, it would outweigh what there is to learn.
        compared=(
            CrossEntropy(),
            FromPrior(CrossEntropy()),
            SelfAdjustingDice(alpha=0.01, smooth=0.01),
        ),
        optimizer=AdamW(learning_rate=3e-3),
        training=Training(epochs=2, batch_size=32, max_length=128),
    )
