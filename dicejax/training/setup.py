"""From an experiment to everything a run needs: corpus, labels, network, weights."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from tokenizers import Tokenizer

from dicejax.config import Experiment, PretrainedEncoder, ScratchEncoder
from dicejax.data import tokenize
from dicejax.data.pipeline import PackedBatches, rows_per_batch
from dicejax.data.synthetic import Corpus
from dicejax.errors import InputError
from dicejax.models import huggingface
from dicejax.models.bert import BertConfig
from dicejax.models.encoder import EncoderConfig
from dicejax.models.network import Network, Params
from dicejax.objectives import Objective
from dicejax.tasks.tagging import TaggedTokens


@dataclasses.dataclass(frozen=True)
class Setup:
    """What a run is made of, before its first step."""

    experiment: Experiment
    corpus: Corpus
    labels: tuple[str, ...]
    tokenizer: Tokenizer
    network: Network
    initial_params: Callable[[jax.Array], Params]
    encoded: dict[str, list[TaggedTokens]]

    @property
    def class_counts(self) -> dict[str, np.ndarray]:
        """How often each class is a label of the training split, by head name."""
        counts = {}
        for name, head in self.network.heads:
            labels = np.concatenate([one.arrays[name] for one in self.encoded["train"]])
            counts[name] = np.bincount(labels[labels >= 0], minlength=head.classes)
        return counts

    def objective(self) -> Objective:
        """Return the objective with what it needs of the training data.

        Raises:
          InputError: a hyper-parameter is out of its range.
        """
        objective = self.experiment.objective.fitted(self.class_counts)
        # Inside a step values are traced and cannot be checked: so once outside.
        heads = dict(self.network.heads)
        logits = {name: jnp.zeros((1, head.classes)) for name, head in heads.items()}
        labels = {name: jnp.zeros(1, jnp.int32) for name in heads}
        try:
            objective(logits, labels, objective.initial_state())
        except ValueError as error:
            raise InputError(f"objective {objective.short_name}: {error}") from error
        return objective

    def batches(self, devices: int) -> PackedBatches:
        """Return the training batches of the whole run."""
        training = self.experiment.training
        examples = [example.arrays for example in self.encoded["train"]]
        rows = rows_per_batch(
            [len(example["input_ids"]) for example in examples],
            training.row_length,
            training.sentences_per_update,
            multiple_of=devices,
        )
        return PackedBatches(
            examples,
            layout=self.experiment.task.layout(self.tokenizer),
            row_length=training.row_length,
            rows=rows,
            epochs=training.epochs,
            seed=training.seed,
        )


def prepare(experiment: Experiment, warn: Callable[[str], None]) -> Setup:
    """Read the data and the encoder, and encode all splits.

    Args:
      experiment: what to train.
      warn: is told in a sentence what the user should know, such as labels that
        training never has.

    Raises:
      InputError: data or weights cannot be used.
    """
    corpus = experiment.data.load()
    labels = experiment.task.label_names(corpus.train)
    if len(labels) == 1:
        warn("the training split holds no entity: there is nothing to learn")
    tokenizer, config, folder = _encoder(experiment, corpus, warn)
    network = Network(
        encoder=config,
        heads=(experiment.task.head(labels),),
        precision=experiment.training.precision,
        remat=experiment.training.remat,
    )
    weights = None
    if folder is not None:
        weights = huggingface.read_weights(folder, network)
    for split in ("dev", "test"):
        for text in experiment.task.warnings(split, getattr(corpus, split), labels):
            warn(text)
    max_length = longest(experiment, network)
    encoded = {
        split: experiment.task.encode(
            getattr(corpus, split), tokenizer, labels, max_length
        )
        for split in ("train", "dev", "test")
    }
    for split, examples in encoded.items():
        cut = sum((example.first_pieces < 0).any() for example in examples)
        if cut:
            warn(
                f"{split}: {cut} of {len(examples)} sentences have words without a "
                f"prediction (longer than {max_length} pieces, or characters the "
                "tokenizer drops); entities there count as missed"
            )

    def initial_params(key: jax.Array) -> Params:
        params = network.init(key)
        return params if weights is None else weights.over(params)

    setup = Setup(
        experiment, corpus, labels, tokenizer, network, initial_params, encoded
    )
    setup.objective()  # what is wrong with it is said before anything is written
    return setup


def longest(experiment: Experiment, network: Network) -> int:
    """The longest sequence a run takes, in word pieces."""
    limits = (experiment.training.row_length, network.encoder.max_length)
    return min(limit for limit in limits if limit is not None)


def _encoder(
    experiment: Experiment, corpus: Corpus, warn: Callable[[str], None]
) -> tuple[Tokenizer, EncoderConfig, Path | None]:
    """The tokenizer, the architecture, and the folder of the weights if any."""
    match experiment.encoder:
        case PretrainedEncoder() as wanted:
            folder = huggingface.locate(wanted.path)
            config = huggingface.read_config(folder)
            try:
                config = config.with_dropout(
                    wanted.hidden_dropout_prob, wanted.attention_probs_dropout_prob
                )
            except ValueError as error:
                raise InputError(f"encoder: {error}") from error
            tokenizer = tokenize.read(folder)
            for text in tokenize.check_fits(tokenizer, config.vocab_size, folder):
                warn(text)
            return tokenizer, config, folder
        case ScratchEncoder() as wanted:
            words = (word for sentence in corpus.train for word in sentence.words)
            tokenizer = tokenize.learn_wordpiece(words, wanted.vocab_size)
            config = BertConfig(
                vocab_size=tokenizer.get_vocab_size(),
                hidden_size=wanted.hidden_size,
                num_hidden_layers=wanted.num_hidden_layers,
                num_attention_heads=wanted.num_attention_heads,
                intermediate_size=wanted.intermediate_size,
                hidden_dropout_prob=wanted.dropout,
                attention_probs_dropout_prob=wanted.dropout,
                max_position_embeddings=max(512, experiment.training.row_length),
                # BERT's 0.02 is meant for a width of 768; at 128 it learns nothing.
                initializer_range=wanted.hidden_size**-0.5,
            )
            return tokenizer, config, None
