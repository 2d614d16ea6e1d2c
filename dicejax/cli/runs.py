"""The commands that take a run: evaluate, predict, export, plot."""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated, Literal

from rich.console import Console
from tyro.conf import Positional, arg

from dicejax.cli.choices import objective_named
from dicejax.cli.printing import noting, scores
from dicejax.errors import InputError

ExperimentOfRun = Annotated[
    str | None,
    arg(
        metavar="EXPERIMENT.py",
        help="the experiment file, if the run has a source, task or loss that is "
        "defined there; the file is run.",
    ),
]
RunFolder = Annotated[Positional[str], arg(metavar="RUN")]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluate:
    """Score a finished run on one of its splits.

    Args:
      run: the run's folder.
      split: the split to score.
      checkpoint: the checkpoint with the best dev score, or the last.
      data: folder of the data, if it is no longer where the run read it.
      json: print JSON instead of a table.
    """

    run: RunFolder
    split: Literal["train", "dev", "test"] = "test"
    checkpoint: Literal["best", "last"] = "best"
    experiment: ExperimentOfRun = None
    data: Annotated[str | None, arg(metavar="FOLDER")] = None
    json: bool = False

    def __call__(self, console: Console) -> None:
        """Score and print."""
        from dicejax.training.inference import evaluate

        warn = noting(console)
        found = evaluate(self.run, self.split, self.checkpoint, warn, data=self.data)
        content = found.scores.to_json()
        if self.json:
            record = {"step": found.step, "split": self.split, **content}
            if found.tuned is not None:
                record["threshold"] = found.threshold
                record["with_tuned_threshold"] = found.tuned.to_json()
            print(json.dumps(record))
            return
        what = f"{self.split}, {self.checkpoint} checkpoint (step {found.step})"
        print(scores(content, what))
        for kind, row in sorted(content["per_type"].items()):
            print("  " + scores(row, kind))
        if found.tuned is not None:
            tuned = f"{what}, threshold {found.threshold:.3g} of dev"
            print(scores(found.tuned.to_json(), tuned))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Predict:
    """Print what a run predicts for new examples.

    For spans and parts of speech an example is a sentence, its words separated by
    spaces as in the training data: punctuation too, and Chinese characters where the
    data has characters. A pair of texts, or a question and its text, are separated by a
    tab.

    Args:
      run: the run's folder.
      text: one or more examples, each in quotes.
      file: a file with one example per line; - reads standard input.
      checkpoint: the checkpoint with the best dev score, or the last.
      json: print one JSON object per example.
    """

    run: RunFolder
    text: Annotated[
        Positional[tuple[str, ...]],
        arg(metavar="[TEXT ...]", help_behavior_hint="(none where there is --file)"),
    ] = ()
    file: Annotated[str | None, arg(metavar="FILE")] = None
    checkpoint: Literal["best", "last"] = "best"
    experiment: ExperimentOfRun = None
    json: bool = False

    def __call__(self, console: Console) -> None:
        """Predict and print."""
        from dicejax.training.inference import predict, read_lines

        lines = list(self.text) + (read_lines(self.file) if self.file else [])
        if not lines:
            raise InputError("nothing to predict: give texts, or a file with --file")
        for record, shown in predict(self.run, lines, self.checkpoint):
            print(
                json.dumps(record, ensure_ascii=False)
                if self.json
                else "\n".join(shown)
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Export:
    """Write a finished run as a Hugging Face folder, for PyTorch.

    The folder gets config.json, model.safetensors and the tokenizer's files, and opens
    with the class that is printed at the end.

    Args:
      run: the run's folder.
      folder: the folder to make.
      checkpoint: the checkpoint with the best dev score, or the last.
      encoder_only: leave the head out.
    """

    run: RunFolder
    folder: Annotated[Positional[str], arg(metavar="FOLDER")]
    checkpoint: Literal["best", "last"] = "best"
    experiment: ExperimentOfRun = None
    encoder_only: bool = False

    def __call__(self, console: Console) -> None:
        """Write the folder and say how it is opened."""
        from dicejax.training.inference import export

        name = export(
            self.run, self.folder, self.checkpoint, encoder_only=self.encoder_only
        )
        print(f"written; transformers.{name}.from_pretrained({self.folder!r}) opens it")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plot:
    """Draw what the gradients of a run were like, and which losses point where F1 does.

    Of a run trained with --analysis.every, finished or not: the density of gradient
    norms, the share of each class, the agreement with soft F1 and alarms, over the
    training. Figures are SVG and PNG.

    Args:
      run: the run's folder.
      out: folder for the figures; "figures" in the run's unless given.
      losses: compare the gradients of these losses with that of soft F1 at the end of
        this run, at their defaults but for what is named after a colon
        (dsc:alpha=1,smooth=0.01). Reads the data again, and writes losses.json.
      checkpoint: for these, the checkpoint with the best dev score, or the last.
      batches: for these, how many of the training batches.
    """

    run: RunFolder
    out: Annotated[str | None, arg(metavar="FOLDER")] = None
    losses: Annotated[
        tuple[str, ...], arg(metavar="NAME ...", help_behavior_hint="(default: none)")
    ] = ()
    checkpoint: Literal["best", "last"] = "best"
    experiment: ExperimentOfRun = None
    batches: int = 20

    def __call__(self, console: Console) -> None:
        """Draw, and print what was compared."""
        from dicejax.analysis import figures
        from dicejax.analysis.gradients import agreement, history, plot
        from dicejax.objectives import names_of
        from dicejax.training.run_folder import Run

        if self.batches < 1:
            raise InputError(f"--batches is {self.batches}; want at least 1")
        figures.require_matplotlib("plot")
        run, losses = Run.at(self.run), [objective_named(name) for name in self.losses]
        found = None
        if losses:
            named = dict(zip(names_of(losses), losses, strict=True))
            warn = noting(console)
            found = agreement.agreements(
                self.run, named, which=self.checkpoint, batches=self.batches, warn=warn
            )
        measured = history.has_history(run) or not losses
        histories = history.read(run) if measured else ()
        out = self.out or str(run.path / "figures")
        files = plot.write(out, run.experiment().objective, histories, found)
        if found is not None:
            Console().print(agreement.table(found))
        print(f"{len(files)} files in {out}")
