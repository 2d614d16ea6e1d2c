"""Losses for several labels per text, on a synthetic corpus with a long tail.

command:  dicejax compare experiments/several_labels.py --seeds 3
measured: to come
"""

from dicejax.config import Experiment, ScratchEncoder, Training
from dicejax.data.sources import SyntheticLabels
from dicejax.objectives import (
    ZLPR,
    Asymmetric,
    CrossEntropy,
    Dice,
    DistributionBalanced,
)
from dicejax.optimizers import AdamW
from dicejax.tasks import MultiLabelClassification


def get_config() -> Experiment:
    return Experiment(
        name="several_labels",
        data=SyntheticLabels(),
        task=MultiLabelClassification(),
        encoder=ScratchEncoder(
            hidden_size=64,
            num_hidden_layers=1,
            intermediate_size=256,
            dropout=0.0,
        ),
        compared=(
            CrossEntropy(),
            Asymmetric(),
            ZLPR(),
            DistributionBalanced(),
            Dice(smooth=0.01),
        ),
        optimizer=AdamW(learning_rate=3e-3),
        training=Training(epochs=8, batch_size=32, max_length=128),
    )
