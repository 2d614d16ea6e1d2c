"""The command `predict`."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import sys
from collections.abc import Generator, Iterable
from typing import IO, TYPE_CHECKING, Annotated, Any, Literal

from rich.console import Console
from rich.progress import Progress
from tyro.conf import Positional, arg

from dicejax.cli.help import option
from dicejax.cli.printing import note_printer, warn_of_cuts
from dicejax.cli.results import check_target, write_lines
from dicejax.cli.runs import Checkpoint, ExperimentOfRun, RunFolder
from dicejax.errors import InputError
from dicejax.io.terminal import show

if TYPE_CHECKING:
    from dicejax.formats.text import Text

TextFormat = Annotated[
    Literal["text", "jsonl", "conll", "csv"] | None, option(None, "by name")
]
OutFormat = Annotated[
    Literal["text", "jsonl", "conll", "csv", "squad", "same"] | None,
    option(None, "by name"),
]
Decisions = Annotated[
    Literal["tuned threshold", "logit adjustment"] | None, option(None, "as trained")
]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Predict:
    """Print a run's predictions for new examples.

    For spans and parts of speech an example is a sentence, its words separated by
    spaces as in the training data: punctuation too, and Chinese characters where the
    data has characters. A tab separates the texts of a pair, a question and its text,
    or a prompt and its answer.

    Args:
      text: one or more examples, each in quotes.
      file: file of examples; - reads standard input.
      format: format of the file: text (one example per line), jsonl (objects with text
        or tokens, or with question and context), conll (the first column is the word)
        or csv (columns as in the run's data). By default guessed from its name.
      out: file to write instead of printing; appears whole or not at all.
      out_format: format of the results, by default guessed from the name of --out;
        conll appends the predicted tag as the last column, csv prediction and
        probability; squad is the object of ids and answers that SQuAD's evaluation
        scripts read, same is the layout of the run's data, for a file in it.
      decisions: predict with the decisions of a comparison that moved them so.
      json: print one JSON object per example, as --out_format jsonl.
    """

    run: RunFolder
    text: Annotated[Positional[tuple[str, ...]], option("[TEXT ...]", "none")] = ()
    file: Annotated[str | None, arg(metavar="FILE")] = None
    format: TextFormat = None
    out: Annotated[str | None, arg(metavar="FILE")] = None
    out_format: OutFormat = None
    checkpoint: Checkpoint = "best"
    experiment: ExperimentOfRun = None
    decisions: Decisions = None
    json: bool = False

    def __call__(self, console: Console) -> None:
        """Predict, and print or write."""
        from dicejax.training import new_texts

        if not (self.text or self.file):
            raise InputError("nothing to predict: give texts, or a file with --file")
        if self.text and self.file:
            raise InputError("texts and --file are both given; leave one out")
        if self.json and self.out_format not in (None, "jsonl"):
            raise InputError(f"--json contradicts --out_format {self.out_format}")
        if self.out is not None:
            check_target(self.out)
        with new_texts.standard_input(self.file) as stream:
            self._write(console, stream)

    def _write(self, console: Console, stream: IO[bytes] | None) -> None:
        """Write or print the predictions as they are made."""
        from dicejax.formats import containers, recognise, tables, texts
        from dicejax.formats.same import SameFile
        from dicejax.training import inference, new_texts

        form = "jsonl" if self.json else self.out_format
        form = form or texts.format_of(self.out or "")
        cut: list[str] = []
        examples: Iterable[Text]
        source, name = None, None
        if self.file is None:
            examples = inference.texts_of(self.text)
        else:
            read = new_texts.read_texts(self.run, self.file, self.format, stream)
            examples, name, source = read
        if form == "same" and source is None:
            raise InputError(
                "--out_format same is for a file in the format of the run's data; "
                "name jsonl instead"
            )
        note = ""
        is_said = bool(self.format or (self.file and tables.is_table(self.file)))
        if name is not None and not is_said:
            recognised = texts.FORMS[name]
            if source is not None:
                recognised = f"the run's data are ({recognise.fields_of(source)})"
            note = f"{self.file} read as {recognised}; --format names another"
        lines: Iterable[str]
        predicted = self._predict(console, cut, form, examples, note)
        with contextlib.closing(predicted) as results:
            pairs = ((text, record) for text, record, _ in results)
            match form:
                case "same" if source is not None and self.file is not None:
                    if containers.is_brat(self.file):
                        containers.write_brat(self.out, list(pairs))
                        return warn_of_cuts(console, cut)
                    lines = SameFile(self.file, source, stream).lines(pairs)
                case "squad":
                    lines = [texts.official(pairs)]
                case "csv":
                    lines = texts.table(examples, pairs)
                case "conll" | "jsonl":
                    write = texts.conll if form == "conll" else texts.jsonl
                    lines = itertools.starmap(write, pairs)
                case _:
                    lines = ("\n".join(parts) for _, _, parts in results)
            if self.out is not None:
                write_lines(self.out, lines)
            else:
                for line in lines:
                    show(line, keep="\n\t")  # columns are separated by tabs
        warn_of_cuts(console, cut)

    def _predict(
        self,
        console: Console,
        cut: list[str],
        out_form: str,
        examples: Iterable[Text],
        note: str,
    ) -> Generator[tuple[Text, dict[str, Any], list[str]]]:
        """Print the note, yield predictions, add warnings of cut inputs to `cut`."""
        from dicejax.training import inference

        # Lines on a terminal show how far it is, and would disturb the display. Else
        # they go where standard output goes, which the display would redirect.
        is_off = self.file is None or (self.out is None and sys.stdout.isatty())
        with Progress(
            console=console, transient=True, redirect_stdout=False, disable=is_off
        ) as bar:
            task = bar.add_task("predict", total=None)

            def begin(count: int) -> None:
                bar.update(task, total=count)
                if note:
                    note_printer(console)(note)

            yield from inference.predict_texts(
                self.run,
                examples,
                self.checkpoint,
                self.file,
                decisions=self.decisions,
                tagged=out_form == "conll",
                official=out_form == "squad",
                begin=begin,
                decoded=lambda: bar.advance(task),
                warn=cut.append,
            )
