"""Use a finished run: score a split again, find entities in new sentences."""

from __future__ import annotations

import dataclasses
import gzip
import sys
from collections.abc import Callable, Sequence

from etils import epath

from dicejax.data.readers.conll import Sentence
from dicejax.data.sources import ConllFiles
from dicejax.data.tags import Span
from dicejax.errors import InputError
from dicejax.metrics.spans import SpanScores
from dicejax.training.checkpoint import Which, restore_params
from dicejax.training.prediction import predict_spans
from dicejax.training.run import Run
from dicejax.training.setup import longest
from dicejax.training.sharding import local_mesh, replicate


def evaluate(
    folder: str,
    split: str,
    which: Which,
    warn: Callable[[str], None],
    data: str | None = None,
) -> tuple[int, SpanScores]:
    """Score a split of a run's own data.

    Args:
      folder: the run.
      split: "train", "dev" or "test".
      which: the checkpoint to use.
      warn: is told what the user should know, such as types that training never had.
      data: folder to read the data from instead of the run's own.

    Returns:
      The step of the checkpoint, and the scores.

    Raises:
      InputError: the run or its data cannot be used.
    """
    run = Run.open(folder)
    experiment = run.experiment()
    source = experiment.data
    if data is not None:
        if not isinstance(source, ConllFiles):
            raise InputError("--data: this run made its data up, there is no folder")
        source = dataclasses.replace(source, dir=data)
    sentences = getattr(source.load(), split)
    for text in experiment.task.warnings(split, sentences, run.labels()):
        warn(text)
    step, predicted = _predict(run, sentences, which)
    return step, experiment.task.score(sentences, predicted)


def predict(
    folder: str, sentences: Sequence[str], which: Which
) -> list[tuple[list[str], list[Span]]]:
    """Find the entities of sentences whose words are separated by white space.

    Returns:
      For each sentence its words and the spans over them.

    Raises:
      InputError: the run cannot be used.
    """
    run = Run.open(folder)
    words = [sentence.split() for sentence in sentences]
    unlabelled = [Sentence(tuple(w), (), line) for line, w in enumerate(words, start=1)]
    _, spans = _predict(run, unlabelled, which)
    return list(zip(words, spans, strict=True))


def read_sentences(path: str) -> list[str]:
    """Read one sentence per line, blank lines left out; "-" is standard input.

    Raises:
      InputError: the file is missing, empty or not UTF-8.
    """
    try:
        if path == "-":
            text = sys.stdin.read()
        else:
            content = epath.Path(path).read_bytes()
            if path.endswith(".gz"):
                content = gzip.decompress(content)
            text = content.decode("utf-8-sig")
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file") from error
    except (UnicodeDecodeError, IsADirectoryError, gzip.BadGzipFile) as error:
        raise InputError(f"{path}: not a UTF-8 text file ({error})") from error
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        raise InputError(f"{path}: holds no sentence")
    return lines


def _predict(
    run: Run, sentences: Sequence[Sentence], which: Which
) -> tuple[int, list[list[Span]]]:
    experiment, labels, tokenizer = run.experiment(), run.labels(), run.tokenizer()
    network, mesh = run.network(), local_mesh()
    length = longest(experiment, network)
    step, params = restore_params(run.checkpoints, network, which)
    spans = predict_spans(
        replicate(params, mesh),
        experiment.task.encode(sentences, tokenizer, labels, length),
        network=network,
        task=experiment.task,
        labels=labels,
        tokenizer=tokenizer,
        row_length=experiment.training.row_length,
        mesh=mesh,
    )
    return step, spans
