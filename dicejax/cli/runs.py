"""The commands that take runs: evaluate, report, export, plot; `predict` has a file."""

from __future__ import annotations

import dataclasses
import functools
import json
from typing import Annotated, Literal

from rich.console import Console
from rich.progress import Progress
from tyro.conf import Positional, arg

from dicejax.cli.help import option
from dicejax.cli.printing import (
    class_lines,
    note_printer,
    print_table,
    score_lines,
    warn_of_cuts,
)
from dicejax.cli.results import check_target, write_lines
from dicejax.errors import InputError
from dicejax.io.terminal import show

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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluate:
    """Score a finished run on one of its splits.

    Args:
      split: split to score.
      data: data folder, if it has moved since training.
      decoding: decode tags of spans so and not as the run: greedy, or viterbi for the
        likeliest sequence that their scheme allows.
      predictions: file to write gold and prediction of each example to, the hardest
        first, as JSON lines; appears whole or not at all.
      json: print JSON instead of a table.
    """

    run: RunFolder
    split: Literal["train", "dev", "test"] = "test"
    checkpoint: Checkpoint = "best"
    experiment: ExperimentOfRun = None
    data: Annotated[str | None, arg(metavar="FOLDER")] = None
    decoding: Literal["greedy", "viterbi"] | None = None
    predictions: Annotated[str | None, arg(metavar="FILE")] = None
    json: bool = False

    def __call__(self, console: Console) -> None:
        """Score and print."""
        from dicejax.metrics.thresholds import describe
        from dicejax.training.inference import evaluate
        from dicejax.training.outcome import remedy
        from dicejax.training.run_folder import Run

        if self.predictions is not None:
            check_target(self.predictions)
        is_shown = console.is_terminal  # elsewhere it would be an empty line
        with Progress(console=console, transient=True, disable=not is_shown) as bar:
            task = bar.add_task("evaluate", total=None)
            result = evaluate(
                self.run,
                self.split,
                checkpoint=self.checkpoint,
                data=self.data,
                warn=note_printer(console),
                by_example=self.predictions is not None,
                decoding=self.decoding,
                begin=lambda count: bar.update(task, total=count),
                decoded=lambda: bar.advance(task),
            )
        if self.predictions is not None:
            rows = (json.dumps(row, ensure_ascii=False) for row in result.examples)
            write_lines(self.predictions, rows)
        content, tuned = result.scores.to_json(), result.tuned
        title = f"{self.split}, {self.checkpoint} checkpoint (step {result.step})"
        if self.json:
            record = {"step": result.step, "split": self.split, **content}
            if tuned is not None:
                record["threshold"] = result.threshold
                record["with_tuned_threshold"] = tuned.to_json()
            if (guarantee := result.guarantee) is not None:
                observed = {x: y.to_json() for x, y in result.observed.items()}
                record["guarantee"] = dataclasses.asdict(guarantee)
                record["constraint_on_test"] = observed
            if result.calibration is not None:
                record["calibration"] = dataclasses.asdict(result.calibration)
            show(json.dumps(record))
        else:
            for line in score_lines(content, title, result.metric):
                show(line)
            for line in class_lines(content["per_type"]):
                show(f"  {line}")
            if tuned is not None and result.threshold is not None:
                label = f"{title}, {describe(result.threshold)} of dev"
                for line in score_lines(tuned.to_json(), label, result.metric):
                    show(line)
            if result.guarantee is not None and result.observed:
                show(result.guarantee.compare(result.observed))
            if result.calibration is not None:
                show(f"{title}, probabilities: {result.calibration}")
            if result.nothing_learnt is not None:
                run = Run.open(self.run)
                cause = remedy(run.experiment(), run.result())
                show(f"Nothing learnt: {result.nothing_learnt}.")
                show(f"Likely cause: {cause} when it is trained again.")
        warn_of_cuts(console, result.cut)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Report:
    """Write the comparison report of finished runs, or of scores from elsewhere.

    The runs must belong to one experiment and differ only in loss and seed. Unfinished
    runs, and seeds that only some losses have, are reported as missing. Of a folder
    with the record of a comparison, comparison.json, and without runs, the report is
    drawn anew from that.

    Args:
      runs: run folders, or folders that contain runs at any depth.
      scores: CSV file instead of runs, with columns data, loss, seed, score and
        optionally example and group: the same verdicts for other runs.
      unit: unit of the scores in the CSV file: points from 0 to 100, or fraction from 0
        to 1. If it is not named, scores that look like fractions are refused.
      across: combine finished comparisons of several data sets, named by their folders,
        in one statement on each loss.
      out: output directory of report.html, report.md, comparison.json, methods.txt and
        table.tex, and without --scores of rerun.py; of several.json with --across.
      baseline: loss that the others are compared with.
      controls: with --scores, cheap settings that a loss has to beat too. Known by name
        are majority, tfidf, frozen, wce, ce+prior, ce + tuned threshold and ce + logit
        adjustment.
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
    baseline: Annotated[str | None, option("NAME", "ce")] = None
    controls: Annotated[tuple[str, ...], option("NAME ...", "by their names")] = ()
    margin: Annotated[float | None, option("FLOAT", "0.5")] = None
    experiment: ExperimentOfRun = None

    def __call__(self, console: Console) -> None:
        """Read the runs and write the report."""
        from dicejax.study.compare import MOST_DRAWN, compare_runs, compare_scores

        if self.scores is not None:
            if self.runs or self.out is None:
                raise InputError("--scores needs --out FOLDER and takes no run folders")
            made = compare_scores(
                self.scores,
                out=self.out,
                unit=self.unit,
                baseline="ce" if self.baseline is None else self.baseline,
                controls=self.controls,
                margin=0.5 if self.margin is None else self.margin,
            )
            if len(made) > MOST_DRAWN:
                for each in made:
                    outcomes = (f"{x} {y.outcome}" for x, y in each.verdicts.items())
                    show(f"{each.name}: {', '.join(outcomes)}")
                show(f"reports of {len(made):,} data sets, without figures: {self.out}")
                return
            for each in made:
                print_table(each)
                for line in each.lines():
                    show(line)
                show(f"report in {each.report}")
            return
        for flag in ("unit", "controls"):
            if getattr(self, flag):
                raise InputError(f"--{flag} goes with --scores")
        if self.across:
            from dicejax.study.compare.across import combined

            for line in combined(self.runs, self.out):
                show(line)
            return
        result = compare_runs(
            self.runs,
            out=self.out,
            baseline=self.baseline,
            margin=self.margin,
            warn=note_printer(console),
        )
        for line in result.lines():
            show(line)
        show(f"report in {result.report}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Export:
    """Export a finished run as a Hugging Face model folder, for PyTorch.

    The folder holds config.json, model.safetensors, the tokenizer's files and a card,
    README.md: scores, limits, and the verdict of the comparison that the run is part
    of. The class that opens it is printed. A threshold that was chosen on dev is
    `decision_threshold` in its configuration.

    Args:
      folder: directory to create.
      encoder_only: omit the head.
      data: data folder, if it has moved since training, or a file in the format of the
        run's data: dev, on which the export is compared with the run. Where there is
        none it is not compared, which is said first.
      onnx: add onnx/model.onnx in float32 and onnx/model_int8.onnx, compared with the
        run on dev by onnxruntime; refused where one is worse.
      force: with --onnx, write files that are worse too.
      license: licence of the model for the card, by its identifier on the hub.
      language: language of the texts for the card, such as en.
    """

    run: RunFolder
    folder: Annotated[Positional[str], arg(metavar="FOLDER")]
    checkpoint: Checkpoint = "best"
    experiment: ExperimentOfRun = None
    encoder_only: bool = False
    data: Annotated[str | None, option("FOLDER|FILE", "the run's")] = None
    onnx: bool = False
    force: bool = False
    license: Annotated[str | None, option("ID", "not stated")] = None
    language: Annotated[str | None, option("CODE", "not stated")] = None

    def __call__(self, console: Console) -> None:
        """Write the folder and print how to open it."""
        from dicejax.study import onnx_export
        from dicejax.study.card import model_card
        from dicejax.training.export import export, opening
        from dicejax.training.outcome import remedy
        from dicejax.training.run_folder import Run

        if self.force and not self.onnx:
            raise InputError("--force goes with --onnx")
        add = functools.partial(onnx_export.add, force=self.force)
        card = functools.partial(
            model_card, self.run, license=self.license, language=self.language
        )
        name, checks = export(
            self.run,
            self.folder,
            self.checkpoint,
            encoder_only=self.encoder_only,
            data=self.data,
            warn=note_printer(console),
            card=card,
            more=add if self.onnx else None,
        )
        show(f"written; {opening(name)}({self.folder!r}) opens it")
        for text in checks:
            show(text)
        run = Run.open(self.run)
        if untaught := (result := run.result()).get("nothing_learnt"):
            show(f"Nothing learnt: {untaught}.")
            show(f"Likely cause: {remedy(run.experiment(), result)}.")


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
        if agreements:
            Console().print(agreement.table(agreements))
        show(f"{len(files)} files in {out}")
