"""Uses of a finished run: evaluation, prediction, export to PyTorch."""

from __future__ import annotations

import dataclasses
import html
import io
import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax

from dicejax.config import Experiment
from dicejax.data.examples import ReadingExample
from dicejax.errors import Flaw, InputError, Truncation
from dicejax.formats import FileSource
from dicejax.formats import texts as text_files
from dicejax.formats.conll import neighbours
from dicejax.formats.texts import Format, Text
from dicejax.io import json_text
from dicejax.mesh import MeshShape
from dicejax.metrics.guarantees import GuaranteedThreshold, Observation, guarantee_of
from dicejax.metrics.scores import Scores
from dicejax.models import huggingface
from dicejax.tasks import Item, Prediction, QuestionAnswering
from dicejax.tasks.classification import TextTask
from dicejax.tasks.described import beside_gold
from dicejax.training.checkpoint import Which, restore_params
from dicejax.training.outcome import nothing_learnt
from dicejax.training.predict import search
from dicejax.training.run_folder import CHECKPOINTS, Run
from dicejax.training.setup import load_corpus
from dicejax.training.train import Result

Folder = str | os.PathLike[str]


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """The scores of a split.

    Attributes:
      step: update at which the checkpoint was saved.
      scores: scores with the task's default threshold, if it has one.
      threshold: threshold chosen on dev when the run was trained, one or by label.
      tuned: scores with that threshold.
      examples: gold and prediction of each example, by the tuned threshold where there
        is one (`tasks.described.beside_gold`); empty unless requested.
      cut: warnings of inputs that are cut off.
      nothing_learnt: how predictions show that nothing was learnt; None if they do not.
      guarantee: the constraint that the threshold was chosen to keep on new data.
      observed: the bounded measure on test, by label; empty of other splits, and
        where test is dev.
    """

    step: int
    scores: Scores
    threshold: float | Mapping[str, float] | None = None
    tuned: Scores | None = None
    examples: tuple[dict[str, Any], ...] = ()
    cut: tuple[str, ...] = ()
    nothing_learnt: str | None = None
    guarantee: GuaranteedThreshold | None = None
    observed: Mapping[str, Observation] = dataclasses.field(default_factory=dict)

    def __repr__(self) -> str:
        text = f"step {self.step}: {self.scores}"
        if self.tuned is not None:
            text += f"; with the tuned threshold: {self.tuned}"
        if self.guarantee is not None and self.observed:
            text += f"; {self.guarantee.compare(self.observed)}"
        return f"Evaluation({text})"

    def _repr_html_(self) -> str:
        scores = self.scores if self.tuned is None else self.tuned
        return f"<p>{html.escape(repr(self))}</p>{scores._repr_html_()}"


def evaluate(
    run: Folder | Result,
    split: str = "test",
    *,
    checkpoint: Which = "best",
    data: str | None = None,
    warn: Callable[[str], None] = warnings.warn,
    by_example: bool = False,
) -> Evaluation:
    """Score a finished run on one of its splits.

    Args:
      run: folder of the run, or the result of `train`.
      split: "train", "dev" or "test".
      checkpoint: "best" by the dev score, or "last".
      data: data folder, if it has moved since training.
      warn: called with remarks, such as on types without training examples.
      by_example: also return gold and prediction of each example.

    Raises:
      InputError: the run or its data cannot be used.
    """
    opened = Run.open(_folder(run))
    experiment = opened.offline_experiment(data=data)
    corpus = load_corpus(experiment, warn)
    examples = getattr(corpus, split)
    task, labels = experiment.task, opened.labels()

    step, items, candidates, chosen = _find(opened, examples, checkpoint)
    threshold = None if chosen is None else chosen["threshold"]
    notes = task.warnings(split, examples, items, labels)
    cut = tuple(note.text for note in notes if isinstance(note, Truncation))
    for note in notes:
        if isinstance(note, str):
            warn(note)
    default = [task.decide(candidate) for candidate in candidates]
    scores = task.score(examples, default, labels)
    rows: tuple[dict[str, Any], ...] = ()
    if by_example:
        decided = [task.decide(candidate, threshold) for candidate in candidates]
        rows = tuple(beside_gold(task, examples, decided, labels))
    tuned = None
    if threshold is not None:
        tuned = task.score_found(examples, candidates, labels, threshold)
    untaught = nothing_learnt(task, default, scores)
    guarantee, observed = guarantee_of(chosen), {}
    if guarantee is not None:
        for text in guarantee.warnings:
            warn(text)
        if split == "test" and corpus.test != corpus.dev:  # which chose the threshold
            observed = task.observe(guarantee, examples, candidates, labels)
    return Evaluation(
        step, scores, threshold, tuned, rows, cut, untaught, guarantee, observed
    )


def predict(
    run: Folder | Result,
    lines: Sequence[str],
    which: Which = "best",
    warn: Callable[[str], None] = lambda text: None,
) -> list[tuple[dict[str, Any], list[str]]]:
    """Predict for examples written as lines, with the threshold that dev has tuned.

    Returns:
      For each line the prediction as JSON, and as lines for a terminal.

    Raises:
      InputError: the run cannot be used, or a line lacks a part.
    """
    for number, line in enumerate(lines, start=1):
        try:
            json_text.value_of(line, str)
        except Flaw as flaw:  # such as an argument in another encoding
            raise flaw.at(f"text {number}", None) from None
        if not line.strip():
            raise InputError(f"text {number}: is blank; give some words")
    texts = [Text(number, line) for number, line in enumerate(lines, start=1)]
    return predict_texts(_folder(run), texts, which, warn=warn)


def predict_texts(
    folder: str,
    texts: Sequence[Text],
    which: Which = "best",
    path: str | None = None,
    *,
    tagged: bool = False,
    official: bool = False,
    decoded: Callable[[], None] = lambda: None,
    warn: Callable[[str], None] = lambda text: None,
) -> list[tuple[dict[str, Any], list[str]]]:
    """Predict for the examples of a file, as `predict` does for lines.

    Positions in the records count from 0, the end excluded: `start` and `end` of an
    entity in words, `start_char` and `end_char` in characters of the text, or of the
    answer alone where the run reads prompts. A blank example has a record without
    labels. The examples of a file, whose `path` errors name, are each other's context
    where the run was trained with that. `decoded` is called after each example that is
    not blank. `tagged` results are for column files, `official` ones for
    `texts.official`.

    Raises:
      InputError: the run cannot be used, an example lacks a part, words have no tags,
        or the task or an id does not suit `texts.official`.
    """
    run = Run.open(folder)
    experiment = run.experiment()
    task = experiment.task
    nothing: dict[str, Any] = {}  # the record of a blank example
    if task.reads_words:
        nothing, _ = task.show(task.of_words((), 1), Prediction(()))
    if tagged and not text_files.has_tags(nothing):
        raise InputError(
            f"task {type(task).__name__} gives words no tags; write jsonl or text "
            "instead of conll"
        )
    if official:
        if not isinstance(task, QuestionAnswering) or task.several_spans:
            raise InputError(
                f"task {type(task).__name__} does not give each question the text of "
                "one answer; write jsonl instead of squad"
            )
        text_files.ids_of(texts, path)
    written = [text for text in texts if not text.is_blank]
    second = getattr(experiment.data, "second", "")  # other sources may have pairs
    is_single = isinstance(task, TextTask) and second is None
    examples = [_parse(experiment, text, path, is_single) for text in written]
    context = getattr(experiment.data, "context", 0)
    if context and path is not None:
        words = [example.words for example in examples]
        around = neighbours(words, text_files.documents(written), context)
        examples = [
            dataclasses.replace(example, before=before, after=after)
            for example, (before, after) in zip(examples, around, strict=True)
        ]
    try:
        adapted = task.adapt(examples)
    except InputError as error:
        raise error if path is None else InputError(f"{path}: {error}") from None
    _, items, candidates, chosen = _find(run, adapted, which, decoded)
    threshold = None if chosen is None else chosen["threshold"]
    for note in task.cut_inputs("given", items):
        warn(note.text)
    if (guarantee := guarantee_of(chosen)) is not None:
        for remark in guarantee.warnings:
            warn(remark)
    outputs = (
        task.show(example, task.decide(candidate, threshold))
        for example, candidate in zip(adapted, candidates, strict=True)
    )
    results: list[tuple[dict[str, Any], list[str]]] = []
    for text in texts:
        if text.is_blank:
            results.append((dict(nothing), [""]))
            continue
        record, lines = next(outputs)
        results.append((_with_characters(record, text), lines))
    return results


def _folder(run: Folder | Result) -> str:
    return run.folder if isinstance(run, Result) else os.fspath(run)


def _columns(experiment: Experiment) -> tuple[str, ...]:
    """Return the columns that hold the texts in a run's data, by default "text"."""
    if ReadingExample in experiment.task.takes:
        return ("question", "context")
    data = experiment.data
    names = (getattr(data, "first", None), getattr(data, "second", None))
    return tuple(name for name in names if isinstance(name, str)) or ("text",)


def read_texts(
    folder: str, path: str, form: Format | None = None
) -> tuple[list[Text], Format, FileSource | None]:
    """Read examples of a file in a format; None recognises it, "-" is standard input.

    A file of the format of the training files is read as they were.

    Returns:
      The examples, the format, and the source of the training files if it read them.

    Raises:
      InputError: see `formats.texts.read`.
    """
    run = Run.open(folder)
    experiment = run.experiment()
    source = experiment.data if isinstance(experiment.data, FileSource) else None
    form = form or text_files.format_of(path, source)
    stream = io.BytesIO(sys.stdin.buffer.read()) if path == "-" else None
    if source is not None:
        source = text_files.same_format(path, form, source, stream)
    texts = text_files.read(path, form, stream, _columns(experiment), source)
    if source is not None:
        texts = source.without_gold(texts, run.labels())
    return texts, form, source


def _parse(
    experiment: Experiment, text: Text, path: str | None, is_single: bool
) -> Any:
    """Return the example of a text; a task of single texts refuses a pair."""
    task, data, words = experiment.task, experiment.data, text.words
    if words is None and task.reads_words and isinstance(data, FileSource):
        words = data.words_of(text.text)
    try:
        if words is not None:
            example = task.of_words(words, text.line)
            if text.prompt:
                example = dataclasses.replace(example, prompt=text.prompt)
            return example
        if not is_single or "\t" not in text.text:
            return task.parse(text.text, text.line)
        fields = [x.strip() for x in text.fields.values() if isinstance(x, str)]
        if text.text.strip() not in fields:
            raise InputError(
                f"text {text.line} has a tab, which separates two texts, but the run "
                "was trained on single ones; replace it with a space, or read a table "
                "that has a header with --format csv"
            )
        example = task.parse(text.text.replace("\t", " "), text.line)
        return dataclasses.replace(example, first=text.text.strip())  # as in training
    except InputError as error:
        if path is None:
            raise
        raise InputError(f"{path}:{text.line}: {error}") from None


def _with_characters(record: dict[str, Any], text: Text) -> dict[str, Any]:
    """Add the characters of entities, or of words that have labels."""
    words = record.get("words")
    if not words:
        return record
    content = text.text
    if "prompt" in record and text.words is None:
        content = content.partition("\t")[2]  # the answer alone
    joint = isinstance(words[0], dict)  # words that the task has found itself
    parts = list("".join(content.split())) if joint else words
    places = text_files.offsets(content, parts)
    if "labels" in record:
        return {**record, "offsets": [list(place) for place in places]}
    key, spans = "words" if joint else "entities", []
    for span in record[key]:
        start, end = places[span["start"]][0], places[span["end"] - 1][1]
        spans.append({**span, "start_char": start, "end_char": end})
    return {**record, key: spans}


def _find(
    run: Run,
    examples: Sequence[Any],
    which: Which,
    decoded: Callable[[], None] = lambda: None,
) -> tuple[int, list[Item], list[Any], Mapping[str, Any] | None]:
    """Return the step of the checkpoint, the items and the decoded candidates.

    The last is the threshold that was chosen on dev, as in the run's result, if this is
    the best checkpoint.
    """
    experiment, labels, tokenizer = run.experiment(), run.labels(), run.tokenizer()
    network, mesh = run.network(), MeshShape().make(jax.local_devices())
    limits = (experiment.training.max_length, network.encoder.max_length)
    length = min(filter(None, limits))
    items = experiment.task.encode(examples, tokenizer, labels, length)
    step, params = restore_params(run.path / CHECKPOINTS, network, which, mesh)
    result = search(
        params,
        examples,
        items,
        task=experiment.task,
        network=network,
        labels=labels,
        tokenizer=tokenizer,
        max_length=experiment.training.max_length,
        mesh=mesh,
        decoded=decoded,
    )
    chosen = run.result().get("threshold") if which == "best" else None
    return step, items, result.candidates[0], chosen


def export(
    folder: str, target: str, which: Which, *, encoder_only: bool = False
) -> str:
    """Export weights, architecture, labels, threshold and tokenizer for transformers.

    The target folder appears whole or not at all.

    Returns:
      The PyTorch class that opens the folder.

    Raises:
      InputError: the run cannot be used, the folder is taken, or PyTorch has no class
        with such a head.
    """
    run = Run.open(folder)
    network = run.network()
    _, params = restore_params(run.path / CHECKPOINTS, network, which)
    chosen = run.result().get("threshold") if which == "best" else None
    if encoder_only:
        network, chosen = dataclasses.replace(network, heads=()), None
    return huggingface.write(
        Path(target).expanduser(),
        network,
        params,
        labels=run.labels(),
        tokenizer=run.tokenizer(),
        threshold=None if chosen is None else chosen["threshold"],
    )
