"""Files in the format of the data, with what models say in place of doubted gold."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from etils import epath

from dicejax.data.examples import LabelledText, MultiLabelText, Sentence
from dicejax.formats import FileSource, containers, label_studio
from dicejax.formats.records import Skipped
from dicejax.formats.same import SameFile
from dicejax.formats.source import first_path
from dicejax.formats.text import Text
from dicejax.tasks import Prediction, Task
from dicejax.training.inference import with_characters

FOLDER = "corrected"
_OF_PRODIGY = ("_input_hash", "_task_hash")


def corrected(
    source: FileSource,
    task: Task,
    labels: Sequence[str],
    proposed: Mapping[Any, Any],
) -> dict[str, str]:
    """Return the files with proposals by name, as the data are written.

    A file is whole, with the proposals in place of gold, so that its difference from
    the user's is what is proposed. Of the export of an annotation tool (Prodigy, Label
    Studio) it has the proposed examples alone, as pre-annotations to import.

    Args:
      source: source of the data.
      task: task of the runs.
      labels: labels of the runs.
      proposed: what models say, by the example in the data.

    Raises:
      InputError: a file cannot be read, or the format cannot be written.
    """
    contents: dict[str, str] = {}
    names = [name for name in (source.train, source.dev, source.test) if name]
    for name in dict.fromkeys(part for each in names for part in each.split("+")):
        path = first_path(source.dir, name)
        skipped = Skipped() if source.on_error == "skip" else None
        examples = task.adapt(source.read_with_notes(path, skipped)[0])
        if not any(example in proposed for example in examples):
            continue
        pairs = list(_pairs(source.texts(path), examples, task, labels, proposed))
        is_tool = any(_is_of_tool(text.fields) for text, _, is_new in pairs if is_new)
        chosen = [(text, record) for text, record, is_new in pairs if is_new]
        if is_tool:
            made = [source.fields_with(text, record) for text, record in chosen]
            lines = [json.dumps(record, ensure_ascii=False) for record in made]
            if containers.begins_a_list(containers.first_line(path)):
                lines = ["[\n" + ",\n".join(lines) + "\n]"]
        else:
            every = [(text, record) for text, record, _ in pairs]
            lines = list(SameFile(path, source).lines(every))
        ending = ".jsonl" if containers.is_split(path) else ""
        plain = epath.Path(name).name.removesuffix(".gz")
        contents[f"{FOLDER}/{plain}{ending}"] = "\n".join(lines) + "\n"
    return contents


def _pairs(
    texts: Iterable[Text],
    examples: Sequence[Any],
    task: Task,
    labels: Sequence[str],
    proposed: Mapping[Any, Any],
) -> Iterator[tuple[Text, dict[str, Any], bool]]:
    """Yield texts with the record of gold or of a proposal, and whether it is one.

    A text that has no example, which its annotator left out, is left out.
    """
    by_line = {example.line: example for example in examples}
    for text in texts:
        if text.is_blank:
            yield text, {}, False
        elif (example := by_line.get(text.line)) is not None:
            made = proposed.get(example, example)
            yield text, _record(task, made, text, labels), example in proposed


def _record(
    task: Task, example: Any, text: Text, labels: Sequence[str]
) -> dict[str, Any]:
    """Return gold as the record of a prediction, which formats write."""
    if isinstance(example, LabelledText):
        shares = dict(example.probabilities or ((example.label, 1.0),))
        return {"label": example.label, "probabilities": shares}
    if isinstance(example, MultiLabelText):
        names = list(example.labels or ())
        shares = {name: float(name in names) for name in labels}
        return {"labels": names, "probabilities": shares}
    values = example.spans if isinstance(example, Sentence) else example.labels
    record, _ = task.show(example, Prediction(values))
    return with_characters(record, text)


def _is_of_tool(fields: Mapping[str, Any]) -> bool:
    return label_studio.is_task(fields) or any(name in fields for name in _OF_PRODIGY)
