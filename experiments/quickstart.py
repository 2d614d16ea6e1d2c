"""Two losses on a synthetic, imbalanced corpus: a first look that needs no data.

command:  dicejax compare experiments/quickstart.py
measured: -
"""

from dicejax.config import Experiment, ScratchEncoder, Training
from dicejax.data.synthetic import SyntheticNER
from dicejax.training.optimizers import AdamW


def get_config() -> Experiment:
    return Experiment(
        name="quickstart",
        data=SyntheticNER(o_per_entity=20.0),
        encoder=ScratchEncoder(
            hidden_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=512,
        ),
        optimizer=AdamW(learning_rate=1e-3),
        training=Training(epochs=6, sentences_per_update=32, row_length=128),
    )
