"""Settings that are tried, from the cheapest model on."""

from __future__ import annotations

import dataclasses

from dicejax.config import Experiment
from dicejax.objectives import FromPrior
from dicejax.objectives.parsing import candidate_named
from dicejax.study.compare.jobs import PLAIN, has_positions, plain_models
from dicejax.training.candidate import with_candidate

LOSSES = ("ce", "wce", "ce+prior", "dsc+prior:smooth=0.01", "focal+prior")
"""Losses from the simplest on; the first three are tried in every search."""


@dataclasses.dataclass(frozen=True)
class Setting:
    """A model of `compare` by its name, with factors of the experiment's settings.

    >>> Setting("ce+prior", rate=4.0, epochs=2).name
    'ce+prior-rate=4-epochs=2'

    Attributes:
      model: a loss, with its settings after a colon, or a control.
      rate: factor of the learning rate.
      head: factor of the heads' rate over that of the encoder; None: the model's own.
      epochs: factor of the number of epochs.
    """

    model: str
    rate: float = 1.0
    head: float | None = None
    epochs: int = 1

    @property
    def name(self) -> str:
        """A name for people and folders."""
        model, _, settings = self.model.partition(":")
        parts = [model, *filter(None, [settings])]
        parts += [f"rate={self.rate:g}"] if self.rate != 1 else []
        parts += [f"head={self.head:g}"] if self.head is not None else []
        parts += [f"epochs={self.epochs}"] if self.epochs != 1 else []
        return "-".join(parts)

    @property
    def is_plain(self) -> bool:
        """Whether it is no fine-tuned encoder."""
        return self.model in PLAIN

    @property
    def cost(self) -> tuple[int, int, bool, str]:
        """Rank by effort: the model, then epochs, then whether anything was tuned."""
        ranks = [*PLAIN, *LOSSES]
        tuned = self.rate != 1 or self.head is not None
        return ranks.index(self.model), self.epochs, tuned, self.name

    def apply_to(self, experiment: Experiment) -> Experiment:
        """Return an experiment with the setting."""
        made = with_candidate(experiment, candidate_named(self.model))
        rate, epochs = made.optimizer.learning_rate, made.training.epochs
        optimizer = dataclasses.replace(made.optimizer, learning_rate=self.rate * rate)
        if self.head is not None:
            optimizer = dataclasses.replace(optimizer, head_learning_rate=self.head)
        training = dataclasses.replace(made.training, epochs=self.epochs * epochs)
        return dataclasses.replace(made, optimizer=optimizer, training=training)


def first_settings(experiment: Experiment) -> list[Setting]:
    """Return what every search tries: models that are no encoders, and three losses.

    >>> from dicejax.config import Experiment
    >>> from dicejax.data.synthetic import SyntheticNER
    >>> mine = Experiment(name="mine", data=SyntheticNER())
    >>> [x.name for x in first_settings(mine)]
    ['majority', 'tfidf', 'ce', 'wce', 'ce+prior']
    """
    names = [*plain_models(experiment), *_losses(experiment)[:3]]
    return [Setting(name) for name in names]


def other_rates(setting: Setting) -> list[Setting]:
    """Return a setting with twice its learning rate, and with half of it."""
    return [
        dataclasses.replace(setting, rate=factor * setting.rate)
        for factor in (2.0, 0.5)
    ]


def other_settings(setting: Setting, experiment: Experiment) -> list[Setting]:
    """Return what differs from a setting by its head, its epochs or its loss.

    >>> from dicejax.config import Experiment
    >>> from dicejax.data.synthetic import SyntheticNER
    >>> mine = Experiment(name="mine", data=SyntheticNER())
    >>> [x.name for x in other_settings(Setting("ce", rate=2.0), mine)][:2]
    ['ce-rate=2-epochs=2', 'wce-rate=2']

    The heads' rate is that of the experiment times three, and times 0.3:

    >>> optimizer = dataclasses.replace(mine.optimizer, head_learning_rate=30.0)
    >>> mine = dataclasses.replace(mine, optimizer=optimizer)
    >>> [x.name for x in other_settings(Setting("ce+prior"), mine)][:2]
    ['ce+prior-head=90', 'ce+prior-head=9']
    """
    usual = experiment.optimizer.head_learning_rate or FromPrior.FACTOR
    heads = (3.0 * usual, 0.3 * usual) if "+prior" in setting.model else ()
    others = [dataclasses.replace(setting, head=head) for head in heads]
    others.append(dataclasses.replace(setting, epochs=2 * setting.epochs))
    for model in _losses(experiment):
        head = setting.head if "+prior" in model else None
        others.append(dataclasses.replace(setting, model=model, head=head))
    return [x for x in others if x != setting]


def _losses(experiment: Experiment) -> list[str]:
    # Of positions there are no classes.
    return [*(LOSSES[:1] if has_positions(experiment.task) else LOSSES)]
