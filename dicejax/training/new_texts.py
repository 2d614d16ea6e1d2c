"""Texts to predict: reading them, and the examples made of them, a few at a time."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any

from etils import epath

from dicejax.config import Experiment
from dicejax.data.examples import ReadingExample
from dicejax.errors import InputError
from dicejax.formats import FileSource
from dicejax.formats import texts as text_files
from dicejax.formats.conll import with_context
from dicejax.formats.rows import begins_document
from dicejax.formats.source import Form
from dicejax.formats.text import Text
from dicejax.io import files
from dicejax.tasks import Task
from dicejax.tasks.texts import TextTask
from dicejax.training.run_folder import Run

EXAMPLES = 4096  # of a part; few batches of it are not full
CHARACTERS = 1 << 20  # of a part of long texts
_IN_MEMORY = 1 << 24  # bytes of standard input; more are on disk

Pair = tuple[Text, Any]  # a text and its example, None where it is blank


def _columns(experiment: Experiment) -> tuple[str, ...]:
    """Return the columns that hold the texts in a run's data, by default "text"."""
    if ReadingExample in experiment.task.takes:
        return ("question", "context")
    data = experiment.data
    names = (getattr(data, "first", None), getattr(data, "second", None))
    return tuple(name for name in names if isinstance(name, str)) or ("text",)


def read_texts(
    folder: str,
    path: str,
    form: Form | None = None,
    stream: IO[bytes] | None = None,
) -> tuple[Iterable[Text], Form, FileSource | None]:
    """Return examples of a file, read anew by each loop.

    A stream is read in place of the path. A format of None is recognised. A file of the
    format of the training files is read as they were.

    Returns:
      The examples, the format, and the source of the training files if it reads them.

    Raises:
      InputError: see `formats.texts.read`.
    """
    run = Run.open(folder)
    experiment = run.experiment()
    source = experiment.data if isinstance(experiment.data, FileSource) else None
    form = form or text_files.format_of(path, source)
    if source is not None:
        source = text_files.same_format(path, form, source, stream)
    texts = text_files.read(path, form, stream, _columns(experiment), source)
    if source is not None:
        return source.without_gold(texts, run.labels()), form, source
    return texts, form, source


@contextlib.contextmanager
def standard_input(path: str | None) -> Iterator[IO[bytes] | None]:
    """Copy standard input, which can then be read twice, if "-" names it.

    Raises:
      InputError: the copy does not fit the folder of temporary files.
    """
    if path != "-":
        yield None
        return
    with tempfile.SpooledTemporaryFile(_IN_MEMORY) as copy:
        with files.input_errors(epath.Path(tempfile.gettempdir())):
            shutil.copyfileobj(sys.stdin.buffer, copy)
        yield copy


def parts(
    experiment: Experiment, texts: Iterable[Text], path: str | None = None
) -> Iterator[tuple[list[Text], list[Any]]]:
    """Yield some texts and the examples of those that are not blank, in order.

    The texts of a file, whose `path` errors name, are each other's context where the
    run was trained with that.

    Raises:
      InputError: a text lacks a part, or does not suit the task.
    """
    task = experiment.task
    second = getattr(experiment.data, "second", "")  # other sources may have pairs
    is_single = isinstance(task, TextTask) and second is None

    def parse(text: Text) -> Any:
        return None if text.is_blank else _parse(experiment, text, path, is_single)

    pairs: Iterator[Pair] = ((text, parse(text)) for text in texts)
    context = getattr(experiment.data, "context", 0)
    if context and path is not None:
        pairs = with_context(pairs, context, _ends_document)
    while part := list(_some(pairs)):
        examples = [example for _, example in part if example is not None]
        try:
            yield [text for text, _ in part], list(task.adapt(examples))
        except InputError as error:
            raise error if path is None else InputError(f"{path}: {error}") from None


def split_parts(task: Task, examples: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Yield the examples of a split in order, some at a time."""
    start = characters = 0
    for place, example in enumerate(examples, start=1):
        characters += sum(map(len, task.texts((example,))))
        if place - start == EXAMPLES or characters >= CHARACTERS:
            yield examples[start:place]
            start, characters = place, 0
    if start < len(examples):
        yield examples[start:]


def _ends_document(text: Text) -> bool:
    """Return whether rows behind a text begin another document, as `-DOCSTART-`."""
    return any(map(begins_document, text.after))


def _some(pairs: Iterator[Pair]) -> Iterator[Pair]:
    characters = 0
    for pair in itertools.islice(pairs, EXAMPLES):
        yield pair
        characters += len(pair[0].text)
        if characters >= CHARACTERS:
            return


def _parse(
    experiment: Experiment, text: Text, path: str | None, is_single: bool
) -> Any:
    """Return the example of a text; a task of single texts refuses a pair."""
    task, data, words = experiment.task, experiment.data, text.words
    if words is None and task.reads_words and isinstance(data, FileSource):
        words = data.words_of(text.text)
    try:
        if words is not None:
            example = task.parse(words, text.line)
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
