"""A run in two lines: its settings before the data is read, its sizes after."""

from __future__ import annotations

from dicejax.config import AnyEncoder, Experiment, PretrainedEncoder, ScratchEncoder
from dicejax.objectives import name_of


def encoder_name(encoder: AnyEncoder, parameters: int | None = None) -> str:
    """Return the name of an encoder, and its number of parameters if that is known.

    >>> from dicejax.config import PretrainedEncoder
    >>> encoder_name(PretrainedEncoder(path="models/bert-base-cased"), 108_310_272)
    'models/bert-base-cased, 108.3 million parameters'
    >>> encoder_name(ScratchEncoder(num_hidden_layers=2, hidden_size=64), 9000)
    'BERT from random weights, 2 layers, 64 wide, 9,000 parameters'
    """
    if isinstance(encoder, PretrainedEncoder):
        name = "/".join(encoder.path.rstrip("/").split("/")[-2:])
    elif isinstance(encoder, ScratchEncoder):
        name = (
            f"BERT from random weights, {encoder.num_hidden_layers} layers, "
            f"{encoder.hidden_size} wide"
        )
    else:
        name = type(encoder).__name__
    if parameters is None:
        return name
    return f"{name}, {_count(parameters, ' million')} parameters"


def settings(experiment: Experiment) -> str:
    """Return the settings of a run, those that matter most.

    >>> from dicejax.data.sources import SyntheticNER
    >>> settings(Experiment(name="mine", data=SyntheticNER()))  # doctest: +ELLIPSIS
    'mine: ce, Tagging, BERT from random weights, 2 layers, 128 wide; 3 epochs, ...'
    """
    training, optimizer = experiment.training, experiment.optimizer
    return (
        f"{experiment.name}: {name_of(experiment.objective)}, "
        f"{type(experiment.task).__name__}, {encoder_name(experiment.encoder)}; "
        f"{training.epochs} epochs, batches of {training.batch_size}, "
        f"{type(optimizer).__name__} {optimizer.learning_rate:g}, seed {training.seed}"
    )


def sizes(examples: dict[str, int], steps: int, parameters: int, devices: str) -> str:
    """Return the sizes of a run.

    >>> sizes({"train": 14041, "test": 3453}, 882, 108_310_272, "8 x TPU v4")
    '14,041 train, 3,453 test examples; 882 updates of 108.3M parameters, 8 x TPU v4'
    """
    counts = ", ".join(f"{n:,} {split}" for split, n in examples.items())
    size = _count(parameters, "M")
    return f"{counts} examples; {steps:,} updates of {size} parameters, {devices}"


def _count(parameters: int, million: str) -> str:
    return (
        f"{parameters / 1e6:.1f}{million}" if parameters >= 1e5 else f"{parameters:,}"
    )
