"""The data of an experiment, read and encoded, and what identifies it."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from dicejax.config import Experiment, PretrainedEncoder
from dicejax.data import tokenize
from dicejax.data.identity import digest
from dicejax.data.source import Corpus
from dicejax.errors import InputError, Truncation, quote
from dicejax.io import limits
from dicejax.models import huggingface
from dicejax.models.bert import BertConfig
from dicejax.models.encoder import EncoderConfig
from dicejax.tasks import Item
from dicejax.tasks.classification import soften
from dicejax.tasks.remarks import Remark
from dicejax.tasks.scoring import require_metric
from dicejax.training.identity import (
    TOKENIZER,
    WEIGHTS,
    Identity,
    tokenizer_checksum,
)

Warn = Callable[[str], None]
SPLITS = ("train", "dev", "test")
_LAST_READ: ContextVar[list[Any] | None] = ContextVar("_LAST_READ", default=None)


@dataclasses.dataclass(frozen=True, eq=False)
class Encoded:
    """A corpus in the form of the task, encoded, and the encoder's architecture.

    Without the folder of a pretrained encoder weights are drawn.
    """

    corpus: Corpus
    labels: tuple[str, ...]
    tokenizer: Tokenizer
    encoder: EncoderConfig
    folder: Path | None
    items: dict[str, list[Item]]
    cut: tuple[str, ...] = ()

    @functools.cached_property
    def identity(self) -> Identity:
        """What a run with these data is made from.

        Raises:
          InputError: the weights of the encoder cannot be read.
        """
        return Identity(self.corpus.digests, _of_encoder(self.folder, self.tokenizer))


@contextlib.contextmanager
def reading_once() -> Iterator[None]:
    """Have `load_data` keep the last data, and return them if asked for the same.

    Files are taken to stay as they are meanwhile.
    """
    token = _LAST_READ.set([])
    try:
        yield
    finally:
        _LAST_READ.reset(token)


def load_data(experiment: Experiment, warn: Warn, *, fetch: bool = True) -> Encoded:
    """Read the data and the tokenizer, and encode all splits.

    Raises:
      InputError: data or tokenizer cannot be used.
    """
    last = _LAST_READ.get()
    if last is None:
        return _read_and_encode(experiment, warn, fetch)
    # Of losses and seeds nothing is read.
    parts = experiment.data, experiment.task, experiment.encoder
    key = *parts, experiment.augmentation, experiment.training.max_length
    if not last or last[0] != key:
        notes: list[str] = []
        last[:] = key, notes, _read_and_encode(experiment, notes.append, fetch)
    _, notes, data = last
    for note in notes:
        warn(note)
    return data


def _read_and_encode(experiment: Experiment, warn: Warn, fetch: bool) -> Encoded:
    task, settings, folder = experiment.task, experiment.encoder, None
    encoder: EncoderConfig | None = None
    if isinstance(settings, PretrainedEncoder):
        folder = huggingface.locate(settings.path, settings.revision, fetch=fetch)
        encoder = huggingface.read_config(folder, settings.pooling)
        try:
            encoder = encoder.with_dropout(
                settings.hidden_dropout_prob, settings.attention_probs_dropout_prob
            )
        except ValueError as error:
            raise InputError(f"encoder: {error}") from error
    corpus = load_corpus(experiment, warn)
    labels = task.label_names(corpus.train)
    require_metric(task, corpus.train)
    limits.LABELS.require(len(labels), "train")
    if folder is None or encoder is None:
        tokenizer, encoder = _learn_tokenizer(experiment, corpus)
    else:
        tokenizer = tokenize.read(folder, words=task.reads_words)
        for text in tokenize.check_fits(tokenizer, encoder.vocab_size, folder):
            warn(text)
    max_length = encoder.within_limit(experiment.training.max_length)
    items: dict[str, list[Item]] = {}
    notes: list[Remark] = []
    for split in SPLITS:
        examples = getattr(corpus, split)
        items[split] = task.encode(examples, tokenizer, labels, max_length)
        if split == "train":
            items[split] = list(soften(items[split], examples, task.targets(labels)))
        fit = task.fit(examples, items[split])
        notes += task.remarks(split, examples, fit, labels)
    for name, target in task.targets(labels).items():
        counts = task.class_counts(items["dev"], labels).get(name)
        if target.has_negative and counts is not None and len(items["dev"]):
            positives = counts[:, 1] if target.kind == "multi_label" else counts[1:]
            if not positives.sum():
                few = ", ".join(map(quote, target.classes[1:4]))
                warn(
                    f"dev has none of {few}: its score, which chooses the checkpoint, "
                    "says nothing; name another dev file, or hold out more"
                )
    for note in notes:
        warn(str(note))
    cut = tuple(note.text for note in notes if isinstance(note, Truncation))
    return Encoded(corpus, labels, tokenizer, encoder, folder, items, cut)


def identity_of(experiment: Experiment) -> Identity | None:
    """Return what a run of an experiment would be made from; None if it is not there.

    Nothing is fetched for it.
    """
    try:
        corpus = load_corpus(experiment, lambda note: None)
        if not isinstance(experiment.encoder, PretrainedEncoder):
            return Identity(corpus.digests)
        settings = experiment.encoder
        folder = huggingface.locate(settings.path, settings.revision, fetch=False)
        tokenizer = tokenize.read(folder, words=experiment.task.reads_words)
        return Identity(corpus.digests, _of_encoder(folder, tokenizer))
    except InputError:
        return None


def noun_of(experiment: Experiment) -> str:
    """Return what examples of the data are called, in the plural."""
    return getattr(experiment.data, "noun", "examples")


def _of_encoder(folder: Path | None, tokenizer: Tokenizer) -> dict[str, str]:
    if folder is None:  # both follow from the data and the seed
        return {}
    sums = {TOKENIZER: tokenizer_checksum(tokenizer)}
    return {WEIGHTS: huggingface.checksum(folder), **sums}


def load_corpus(experiment: Experiment, warn: Warn) -> Corpus:
    """Load the splits of an experiment in the form of its task.

    Raises:
      InputError: the data cannot be used, or is of another kind of task.
    """
    corpus = experiment.data.load()
    for note in corpus.notes:
        warn(note)
    splits = {split: getattr(corpus, split) for split in SPLITS}
    digests = {x: corpus.digests.get(x) or digest(splits[x]) for x in SPLITS}
    if experiment.augmentation is not None:
        splits["train"], note = experiment.augmentation.augment(corpus.train)
        warn(f"train: {note}")
    for name, split in splits.items():
        try:
            splits[name] = tuple(experiment.task.adapt(split))
        except InputError as error:
            raise InputError(f"{name}: {error}") from None
    return Corpus(**splits, notes=corpus.notes, digests=digests)


def _learn_tokenizer(
    experiment: Experiment, corpus: Corpus
) -> tuple[Tokenizer, EncoderConfig]:
    """Return a tokenizer of the training texts, and an architecture for it."""
    encoder = experiment.encoder
    if isinstance(encoder, PretrainedEncoder):
        raise TypeError("a pretrained encoder has a tokenizer")
    texts = experiment.task.texts(corpus.train)
    tokenizer = tokenize.learn_wordpiece(texts, encoder.vocab_size)
    vocab_size = tokenizer.get_vocab_size()
    if isinstance(encoder, EncoderConfig):
        return tokenizer, dataclasses.replace(encoder, vocab_size=vocab_size)
    return tokenizer, BertConfig(
        vocab_size=vocab_size,
        hidden_size=encoder.hidden_size,
        num_hidden_layers=encoder.num_hidden_layers,
        num_attention_heads=encoder.num_attention_heads,
        intermediate_size=encoder.intermediate_size,
        hidden_dropout_prob=encoder.dropout,
        attention_probs_dropout_prob=encoder.dropout,
        pooling=encoder.pooling,
        max_position_embeddings=max(512, experiment.training.max_length),
        # BERT's 0.02 is meant for a width of 768; at 128 it learns nothing.
        initializer_range=encoder.hidden_size**-0.5,
    )
