"""The commands that take runs: evaluate, predict, report, export, plot."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import os
import sys
from collections.abc import Generator, Iterable
from typing import IO, TYPE_CHECKING, Annotated, Any, Literal

from rich.console import Console
from rich.progress import Progress
from tyro.conf import Positional, arg

from dicejax.cli.help import option
from dicejax.cli.printing import (
    class_lines,
    note_printer,
    print_table,
    scores,
    warn_of_cuts,
)
from dicejax.errors import InputError
from dicejax.io.terminal import show

if TYPE_CHECKING:
    from dicejax.formats.texts import Text

ExperimentOfRun = Annotated[
    str | None,
    option(
        "EXPERIMENT.py",
        "none",
        "experiment file that defines the run's own source, task, encoder or loss; the "
        "file is executed",
    ),
]
RunFolder = Annotated[Positional[str], arg(metavar="RUN", help="run folder")]
Checkpoint = Annotated[
    Literal["best", "last"],
    arg(help="checkpoint with the best dev score, or the last one"),
]
TextFormat = Annotated[
    Literal["text", "jsonl", "conll", "csv"] | None, option(None, "by name")
]
OutFormat = Annotated[
    Literal["text", "jsonl", "conll", "csv", "squad", "same"] | None,
    option(None, "by name"),
]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluate:
    """Score a finished run on one of its splits.

    Args:
      split: split to score.
      data: data folder, if it has moved since training.
      predictions: file to write gold and prediction of each example to, the hardest
        first, as JSON lines; appears whole or not at all.
      json: print JSON instead of a table.
    """

    run: RunFolder
    split: Literal["train", "dev", "test"] = "test"
    checkpoint: Checkpoint = "best"
    experiment: ExperimentOfRun = None
    data: Annotated[str | None, arg(metavar="FOLDER")] = None
    predictions: Annotated[str | None, arg(metavar="FILE")] = None
    json: bool = False

    def __call__(self, console: Console) -> None:
        """Score and print."""
        from dicejax.metrics.thresholds import describe
        from dicejax.training.inference import evaluate
        from dicejax.training.outcome import remedy
        from dicejax.training.run_folder import Run

        if self.predictions is not None:
            _check_target(self.predictions)
        result = evaluate(
            self.run,
            self.split,
            checkpoint=self.checkpoint,
            data=self.data,
            warn=note_printer(console),
            by_example=self.predictions is not None,
        )
        if self.predictions is not None:
            rows = (json.dumps(row, ensure_ascii=False) for row in result.examples)
            _write_lines(self.predictions, rows)
        content, tuned = result.scores.to_json(), result.tuned
        what = f"{self.split}, {self.checkpoint} checkpoint (step {result.step})"
        if self.json:
            record = {"step": result.step, "split": self.split, **content}
            if tuned is not None:
                record["threshold"] = result.threshold
                record["with_tuned_threshold"] = tuned.to_json()
            if (guarantee := result.guarantee) is not None:
                observed = {x: y.to_json() for x, y in result.observed.items()}
                record["guarantee"] = dataclasses.asdict(guarantee)
                record["constraint_on_test"] = observed
            show(json.dumps(record))
        else:
            show(scores(content, what))
            for line in class_lines(content["per_type"]):
                show(f"  {line}")
            if tuned is not None and result.threshold is not None:
                label = f"{what}, {describe(result.threshold)} of dev"
                show(scores(tuned.to_json(), label))
            if result.guarantee is not None and result.observed:
                show(result.guarantee.compare(result.observed))
            if result.nothing_learnt is not None:
                run = Run.open(self.run)
                training = run.result()
                flags = remedy(run.experiment(), training["steps"], training["skipped"])
                show(f"Nothing learnt: {result.nothing_learnt}.")
                show(f"Likely cause: {flags} where it is trained again.")
        warn_of_cuts(console, result.cut)


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
    json: bool = False

    def __call__(self, console: Console) -> None:
        """Predict, and print or write."""
        from dicejax.training import new_texts

        if not (self.text or self.file):
            raise InputError("nothing to predict: give texts, or a file with --file")
        if self.text and self.file:
            raise InputError("texts and --file are given; want one of them")
        if self.json and self.out_format not in (None, "jsonl"):
            raise InputError(f"--json contradicts --out_format {self.out_format}")
        if self.out is not None:
            _check_target(self.out)
        with new_texts.standard_input(self.file) as stream:
            self._write(console, stream)

    def _write(self, console: Console, stream: IO[bytes] | None) -> None:
        """Write or print the predictions as they are made."""
        from dicejax.formats import brat, recognise, tables, texts
        from dicejax.training import new_texts

        form = "jsonl" if self.json else self.out_format
        form = form or texts.format_of(self.out or "")
        cut: list[str] = []
        examples: Iterable[Text]
        source = None
        if self.file is None:
            examples = [texts.Text(number, x) for number, x in enumerate(self.text, 1)]
        else:
            read = new_texts.read_texts(self.run, self.file, self.format, stream)
            examples, name, source = read
        if form == "same" and source is None:
            raise InputError(
                "--out_format same is for a file in the format of the run's data; "
                "name jsonl instead"
            )
        note = ""
        if self.file is not None and not (self.format or tables.is_table(self.file)):
            what = texts.FORMS[name]
            if source is not None:
                what = f"the run's data are ({recognise.fields_of(source)})"
            note = f"{self.file} read as {what}; --format names another"
        lines: Iterable[str]
        predicted = self._predict(console, cut, form, examples, note)
        with contextlib.closing(predicted) as results:
            pairs = ((text, record) for text, record, _ in results)
            match form:
                case "same" if source is not None and self.file is not None:
                    if brat.is_folder(self.file):
                        brat.write(self.out, list(pairs))
                        return warn_of_cuts(console, cut)
                    lines = source.lines(pairs)
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
                _write_lines(self.out, lines)
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

        if self.file is None and out_form not in ("conll", "squad"):
            results = inference.predict(
                self.run, self.text, self.checkpoint, cut.append
            )
            for text, result in zip(examples, results, strict=True):
                yield text, *result
            return
        # Lines on a terminal show how far it is, and would disturb the display. Else
        # they go where standard output goes, which the display would redirect.
        is_shown = self.out is None and sys.stdout.isatty()
        with Progress(
            console=console, transient=True, redirect_stdout=False, disable=is_shown
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
                tagged=out_form == "conll",
                official=out_form == "squad",
                begin=begin,
                decoded=lambda: bar.advance(task),
                warn=cut.append,
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Report:
    """Write the comparison report of finished runs, or of scores from elsewhere.

    The runs must belong to one experiment and differ only in loss and seed. Unfinished
    runs, and seeds that only some losses have, are reported as missing.

    Args:
      runs: run folders, or folders that contain runs at any depth.
      scores: CSV file instead of runs, with columns data, loss, seed, score and
        optionally example and group: the same verdicts for anybody's runs.
      unit: unit of the scores in the CSV file: points from 0 to 100, or fraction from 0
        to 1. If it is not named, scores that look like fractions are refused.
      across: combine finished comparisons of several data sets, named by their folders,
        in one statement on each loss.
      out: output directory of report.html, report.md, comparison.json, methods.txt and
        table.tex, and without --scores of rerun.py; of several.json with --across.
      baseline: loss that the others are compared with.
      margin: differences within this many points count as practically equal.
    """

    runs: Annotated[
        Positional[tuple[str, ...]],
        arg(metavar="RUNS", help_behavior_hint="(required without --scores)"),
    ] = ()
    scores: Annotated[str | None, arg(metavar="CSV")] = None
    unit: Annotated[
        Literal["points", "fraction"] | None, option("points|fraction", "points")
    ] = None
    across: bool = False
    out: Annotated[str | None, option("FOLDER", "the runs' common folder")] = None
    baseline: Annotated[str, arg(metavar="NAME")] = "ce"
    margin: float = 0.5
    experiment: ExperimentOfRun = None

    def __call__(self, console: Console) -> None:
        """Read the runs and write the report."""
        from dicejax.study.compare import compare_runs, compare_scores

        if self.scores is not None:
            if self.runs or self.out is None:
                raise InputError("--scores goes with --out FOLDER and without runs")
            for each in compare_scores(
                self.scores,
                out=self.out,
                unit=self.unit,
                baseline=self.baseline,
                margin=self.margin,
            ):
                print_table(each)
                for line in each.lines():
                    show(line)
                show(f"report in {each.report}")
            return
        if self.unit is not None:
            raise InputError("--unit goes with --scores")
        if self.across:
            from dicejax.study.compare.several import lines, several

            baseline, made = several(self.runs, self.out)
            for line in lines(baseline, made, len(self.runs)):
                show(line)
            return
        result = compare_runs(
            self.runs, out=self.out, baseline=self.baseline, margin=self.margin
        )
        for line in result.lines():
            show(line)
        show(f"report in {result.report}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Export:
    """Export a finished run as a Hugging Face model folder, for PyTorch.

    The folder holds config.json, model.safetensors and the tokenizer's files; the class
    that opens it is printed. A threshold that dev has chosen is `decision_threshold` of
    its configuration.

    Args:
      folder: directory to create.
      encoder_only: omit the head.
    """

    run: RunFolder
    folder: Annotated[Positional[str], arg(metavar="FOLDER")]
    checkpoint: Checkpoint = "best"
    experiment: ExperimentOfRun = None
    encoder_only: bool = False

    def __call__(self, console: Console) -> None:
        """Write the folder and print how to open it."""
        from dicejax.training.inference import export

        name = export(
            self.run, self.folder, self.checkpoint, encoder_only=self.encoder_only
        )
        show(f"written; transformers.{name}.from_pretrained({self.folder!r}) opens it")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plot:
    """Plot a run's gradient diagnostics.

    For a run trained with --analysis.every, finished or not: density of gradient norms,
    share of each class, agreement with soft F1, and alarms, over training. Writes SVG
    and PNG.

    Args:
      out: output directory.
      losses: also compare the gradients of these losses with that of soft F1 at the
        checkpoint, with their default settings except those given after a colon
        (dsc:alpha=1,smooth=0.01). Reads the data again; writes losses.json.
      batches: training batches used for --losses.
    """

    run: RunFolder
    out: Annotated[str | None, option("FOLDER", "RUN/figures")] = None
    losses: Annotated[tuple[str, ...], option("NAME ...", "none")] = ()
    checkpoint: Checkpoint = "best"
    experiment: ExperimentOfRun = None
    batches: int = 20

    def __call__(self, console: Console) -> None:
        """Draw, and print the comparison."""
        from dicejax.objectives import names_of
        from dicejax.objectives.parsing import objective_named
        from dicejax.study.gradients import agreement, history, plot
        from dicejax.training.run_folder import Run

        if self.batches < 1:
            raise InputError(f"--batches is {self.batches}; want at least 1")
        run, losses = Run.at(self.run), [objective_named(name) for name in self.losses]
        agreements = None
        if losses:
            agreements = agreement.agreements(
                self.run,
                dict(zip(names_of(losses), losses, strict=True)),
                which=self.checkpoint,
                batches=self.batches,
                warn=note_printer(console),
            )
        measured = history.has_history(run) or not losses
        histories = history.read(run) if measured else ()
        out = self.out or str(run.path / "figures")
        files = plot.write(out, run.experiment().objective, histories, agreements)
        if agreements is not None:
            Console().print(agreement.table(agreements))
        show(f"{len(files)} files in {out}")


def _write_lines(out: str, lines: Iterable[str]) -> None:
    """Write lines as they come to a file that appears whole at the end."""
    from etils import epath

    from dicejax.io import files

    path = epath.Path(out)
    files.write_lines(path.parent, path.name, lines)


def _check_target(out: str) -> None:
    """Refuse a name that cannot be written, before anything is read or computed."""
    from etils import epath

    from dicejax.formats import tables

    path = epath.Path(out)
    folder = path.parent
    if path.is_dir():
        fault = ("is a folder", "name a file in it")
    elif folder.is_dir() and not os.access(folder, os.W_OK):
        fault = (f"{folder} cannot be written to", "name a file elsewhere")
    elif tables.is_table(path):
        fault = ("results are no tables", "name a .jsonl file")
    elif path.name.endswith(".gz"):
        fault = ("results are written uncompressed", "name it without .gz")
    else:
        return
    raise InputError.at(out, None, *fault)
