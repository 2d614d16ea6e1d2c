"""Settings that are tried, from the cheapest model on."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from dicejax.config import Experiment, PretrainedEncoder
from dicejax.objectives.parsing import candidate_named
from dicejax.study.compare.jobs import PLAIN, with_candidate

LOSSES = ("ce", "wce", "ce+prior", "dsc+prior:smooth=0.01", "focal+prior")
"""Losses from the simplest on; the first three are tried before other rates are."""


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
        optimizer, training = made.optimizer, made.training
        rate = self.rate * optimizer.learning_rate
        changes = {} if self.head is None else {"head_learning_rate": self.head}
        return dataclasses.replace(
            made,
            optimizer=dataclasses.replace(optimizer, learning_rate=rate, **changes),
            training=dataclasses.replace(
                training, epochs=self.epochs * training.epochs
            ),
        )


Stage = Callable[[Setting], Sequence[Setting]]
"""Returns what is tried beside the best of the stages before."""


def stages(experiment: Experiment) -> tuple[Stage, ...]:
    """Return the stages of a search: plain models, losses, rates, heads, updates.

    >>> from dicejax.config import Experiment
    >>> from dicejax.data.synthetic import SyntheticNER
    >>> first, *_ = stages(Experiment(name="mine", data=SyntheticNER()))
    >>> [x.name for x in first(None)]
    ['majority', 'tfidf', 'ce', 'wce', 'ce+prior']
    """
    targets = experiment.task.targets(()).values()
    has_classes = all(target.kind != "positions" for target in targets)
    is_pretrained = isinstance(experiment.encoder, PretrainedEncoder)
    plain = [
        Setting(name)
        for name in PLAIN
        if experiment.task.has_controls and (name != "frozen" or is_pretrained)
    ]
    losses = [Setting(name) for name in (LOSSES if has_classes else LOSSES[:1])]
    if experiment.training.head_bias == "prior":  # then all begin there
        losses = [x for x in losses if "+prior" not in x.model]
    replace = dataclasses.replace

    def other_losses(best: Setting) -> list[Setting]:
        return [replace(best, model=x.model) for x in losses[3:]]

    return (
        lambda best: [*plain, *losses[:3]],
        lambda best: [replace(best, rate=factor) for factor in (2.0, 4.0, 0.5)],
        lambda best: [
            replace(best, head=factor)
            for factor in (30.0, 3.0)
            if "+prior" in best.model
        ],
        lambda best: [replace(best, epochs=2 * best.epochs)],
        other_losses,
    )


def untried(
    experiment: Experiment,
    scores: Mapping[Setting, float],
    refused: Collection[Setting] = (),
) -> Iterator[Setting]:
    """Yield what a search tries next, given scores on dev and what is refused."""
    seen: list[Setting] = []
    for stage in stages(experiment):
        tuned = [x for x in seen if not x.is_plain]
        best = max(tuned, key=lambda x: scores[x], default=Setting(LOSSES[0]))
        settings = [x for x in stage(best) if x not in seen and x not in refused]
        waiting = [x for x in settings if x not in scores]
        yield from waiting
        if waiting:
            return
        seen += settings
