"""The command for a user's own data: init."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Annotated, Any, Literal

from etils import epath
from rich.console import Console
from tyro.conf import Positional, arg

from dicejax.cli.help import option
from dicejax.cli.printing import note_printer
from dicejax.errors import InputError, visible
from dicejax.io import files
from dicejax.io.parts import temporary_folder
from dicejax.io.terminal import show

FILE = "experiment.py"
SHOWN = 3
"""Examples that are shown as they were read."""
_COLUMN = option("COLUMN", "by its name, or its values")
Kind = Literal["ner", "pos", "classification", "qa"]
"""That of `dicejax.formats`, which help does not wait for."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Init:
    """Inspect your data and create an experiment file for it.

    Counts labels and lengths, and writes FOLDER/experiment.py with reasonable settings
    and comments on the findings and what to try first. A single file is split into
    train, dev and test, 70/15/15.

    Args:
      kind: task. ner: columns, the tag last, JSON lines, or a brat folder. pos:
        columns, the label last, or CoNLL-U. classification: CSV, TSV, JSON lines, or a
        label and a text on each line. qa: SQuAD's JSON. All but pos: Parquet, or a
        folder that datasets saved.
      folder: directory to create the file in.
      data: a file, or a folder with a train file and optionally a dev and a test file.
      sample: instead of --data, write 4,000 sentences for ner to FOLDER/sample.conll.
      text: column or JSON field of the text (the first of a pair), or its number; of
        ner and pos in columns the number of the words.
      second: column of the second text of a pair.
      label: column of the class, of a list of labels, of an entity's label, or of tags.
      spans: JSON field of a text's entities.
      start: field of an entity's first character, from 0.
      end: field of the character after its last.
      align: entities that cut a word, have no words or overlap: "strict" refuses them,
        "expand" takes whole words, "skip" leaves the entity out.
      names: names of tags or classes that are whole numbers, in their order.
      repair: move answers that are a few characters off to their text.
      encoder: model folder, hub id, or "scratch" for random weights.
      on_error: "stop" at the first malformed example, or "skip" and count them.
      overwrite: replace an existing experiment.py.
    """

    kind: Positional[Kind]
    folder: Annotated[Positional[str], arg(metavar="FOLDER")]
    data: Annotated[
        str | None, arg(metavar="PATH", help_behavior_hint="(this or --sample)")
    ] = None
    sample: bool = False
    text: Annotated[str | None, _COLUMN] = None
    second: Annotated[str | None, _COLUMN] = None
    label: Annotated[str | None, _COLUMN] = None
    spans: Annotated[str | None, _COLUMN] = None
    start: Annotated[str | None, _COLUMN] = None
    end: Annotated[str | None, _COLUMN] = None
    align: Literal["strict", "expand", "skip"] = "strict"
    names: Annotated[tuple[str, ...], option("NAME ...", "none")] = ()
    repair: bool = False
    encoder: Annotated[str | None, option("NAME", "by the script of the texts")] = None
    on_error: Literal["stop", "skip"] = "stop"
    overwrite: bool = False

    def __call__(self, console: Console) -> None:
        """Profile the data and write the file, with the sample or not at all."""
        with temporary_folder() as scratch:
            self._write(console, scratch)

    def _write(self, console: Console, scratch: Path) -> None:
        """Do so by the help of a folder for files that are read before they last."""
        from dicejax import config
        from dicejax.formats import recognise
        from dicejax.formats.records import Columns
        from dicejax.init import starter
        from dicejax.models import huggingface
        from dicejax.study.profile import profile
        from dicejax.tasks.described import text_and_gold
        from dicejax.tasks.texts import TextTask
        from dicejax.training.encoded import load_data

        file = Path(self.folder) / FILE
        if os.path.lexists(file) and not self.overwrite:
            raise InputError(
                f"{file}: exists; name another folder, or replace it with --overwrite"
            )
        if (self.data is None) != self.sample:
            raise InputError("name your data with --data, or take --sample; want one")
        if self.sample and self.kind != "ner":
            raise InputError(f"--sample is for ner, not for {self.kind}; name --data")
        files.require_writable(epath.Path(self.folder))
        contents = {starter.SAMPLE: starter.sample()} if self.sample else {}
        for name, content in contents.items():
            (scratch / name).write_text(content, encoding="utf-8")
        data = self.data or str(scratch / starter.SAMPLE)
        names = [field.name for field in dataclasses.fields(Columns)]
        columns = Columns(**{name: getattr(self, name) for name in names})
        source = recognise.source_of(self.kind, data, columns)
        read: dict[str, Any] = {}
        for name in ("align", "names", "repair"):
            if hasattr(source, name):
                read[name] = getattr(self, name)
            elif getattr(self, name) != getattr(Init, name):
                raise InputError(f"--{name} is not for {recognise.describe(source)}")
        source = dataclasses.replace(source, on_error=self.on_error, **read)
        corpus = source.load()
        train = corpus.train
        name = Path(os.path.abspath(self.folder)).name or self.kind
        test = () if corpus.test is corpus.dev else corpus.test
        everything = [*train, *corpus.dev, *test]
        task, choice = starter.task_of(
            self.kind, everything if self.kind == "qa" else train
        )
        draft = config.Experiment(
            name=name,
            data=source,
            task=task,
            training=config.Training(max_length=starter.ROWS[-1]),
        )
        if self.encoder not in (None, "scratch"):  # lengths are those of its tokenizer
            encoder = config.PretrainedEncoder(path=self.encoder)
            draft = dataclasses.replace(draft, encoder=encoder)
        where = self.data or str(Path(self.folder) / starter.SAMPLE)
        show(f"{where}: {recognise.describe(source)}")
        for text, gold in map(text_and_gold, train[:SHOWN]):
            show(f"  {visible(text)}\n    {visible(gold)}")
        note = note_printer(console)
        if (unlabelled := recognise.unlabelled(data, source)) is not None:
            note(unlabelled)
        if choice:
            note(choice)
        encoded = load_data(draft, note)
        counts = profile(draft, note, data=encoded)
        lengths = [len(item) for item in encoded.items["train"]]
        texts = draft.task.texts(draft.task.adapt(train[:1000]))
        architecture = None
        if isinstance(draft.encoder, config.PretrainedEncoder):
            # Its tokenizer counted the lengths, so it is here.
            at = huggingface.locate(draft.encoder.path, fetch=False)
            architecture = huggingface.read_config(at)
        width = None if architecture is None else architecture.width
        suggested = starter.suggest(counts, lengths, texts, self.encoder, width)
        if suggested.metric is not None:
            note(suggested.metric)
            draft = dataclasses.replace(draft, task=starter.by_macro_f1(task))
        if self.sample:
            lasting = dataclasses.replace(source, dir=self.folder)
            draft = dataclasses.replace(draft, data=lasting)
        summary = ""
        if architecture is not None and isinstance(draft.task, TextTask):
            summary = str(architecture.text_summary)
        content = starter.file_for(
            self.kind, draft, str(file), counts, suggested, summary
        )
        (scratch / FILE).write_text(content, encoding="utf-8")
        config.load(scratch / FILE)  # as the commands will
        files.write_together(epath.Path(self.folder), {**contents, FILE: content})
        first = next(iter(counts.splits["train"].outputs), None)
        show(f"{file}: written")
        if first is not None and first.ratio is not None:
            show(starter.imbalance(first))
        if counts.rarest:
            show(counts.rarest)
        show(f"next: dicejax profile {file}")
        show(f"      dicejax compare {file} --seeds 5")
