"""The commands that take an experiment: train, compare, profile, plan."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from rich.console import Console
from tyro.conf import Positional, arg

from dicejax import config
from dicejax.cli.choices import objective_named
from dicejax.cli.printing import noting, scores
from dicejax.data.sources import SyntheticNER
from dicejax.errors import InputError
from dicejax.training.processes import Processes

if TYPE_CHECKING:  # heavy, so commands import them when they are called
    from dicejax.comparison.jobs import Job
    from dicejax.training.progress import TrainingProgress

ExperimentFile = Annotated[Positional[str], arg(metavar="EXPERIMENT.py")]
Overrides = Annotated[config.Experiment, arg(name="")]
GENERIC = config.Experiment(
    name="experiment", data=SyntheticNER(), encoder=config.ScratchEncoder()
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Train:
    """Train one experiment and score it on the test split.

    The run's folder gets metrics.jsonl, TensorBoard files, the best and the last
    checkpoints and result.json. A run that was cut off goes on where it was when the
    same command is given again; SIGTERM and Ctrl-C save it first.

    Args:
      file: the experiment file; run with it and --help to see its values.
      out: folder of the run; runs/NAME/LOSS/seed-N unless given.
      overwrite: replace the run that the folder holds.
      loss: take this loss, at its defaults, instead of the experiment's.
      rule: take this optimizer, at its defaults: adamw, lion, adafactor or lamb.
      scratch: train a small BERT from random weights, with a vocabulary learnt from
        the data, instead of the experiment's encoder.
      processes: how this process finds the others, if there are several.
      settings: the experiment.
    """

    file: ExperimentFile
    out: Annotated[str | None, arg(metavar="FOLDER")] = None
    overwrite: bool = False
    loss: Annotated[str | None, arg(metavar="NAME")] = None
    rule: Annotated[str | None, arg(metavar="NAME")] = None
    scratch: bool = False
    processes: Processes = Processes()
    settings: Overrides = GENERIC

    def __call__(self, console: Console) -> None:
        """Train."""
        self.processes.join()
        from dicejax.training.processes import is_main_process
        from dicejax.training.progress import TrainingProgress
        from dicejax.training.train import train

        with TrainingProgress(console, quiet=not is_main_process()) as progress:
            result = train(
                self.settings, self.out, overwrite=self.overwrite, progress=progress
            )
        if not is_main_process():
            return
        best = f"test, best checkpoint (step {result.best_step})"
        print(scores(result.test, best))
        print(scores(result.test_at_last_step, "test, last checkpoint"))
        if result.threshold is not None:
            tuned = f"{best}, threshold {result.threshold['threshold']:.3g} of dev"
            print(scores(result.test_with_tuned_threshold, tuned))
        print(f"{result.tokens_per_s:,.0f} tokens/s, run in {result.folder}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Compare:
    """Say whether losses help on this data, beside cross-entropy.

    Every loss is trained with every seed: same data order, same initial weights, same
    budget. Finished runs in the folder are used again and those that were cut off go
    on; runs that diverge are counted. The differences are told with statistics for new
    seeds and new sentences, adjusted for the number of losses.

    Args:
      file: the experiment file; run with it and --help to see its values.
      out: folder of all runs; runs/NAME unless given.
      overwrite: train again what the folder holds.
      losses: the losses to compare, at their defaults but for what is named after a
        colon (dsc:alpha=1,smooth=0.01); the experiment names some. Cross-entropy
        always takes part.
      seeds: runs per loss; 0 with --tune to tune and stop there.
      tune: trials per loss, cross-entropy too, before the comparison: of the learning
        rate and of the loss's own numbers that are not named in --losses, the first as
        given. The best on dev is compared; test is not looked at. Trials have the
        seed 1000000, which no run of the comparison has.
      baselines: put beside the losses what costs little: cross-entropy with class
        weights, and cross-entropy whose decisions are moved after training, by logit
        adjustment and by a threshold, both chosen on dev.
      shard: train only every N-th run from the I-th on, written I/N, for arrays of
        jobs that share the folder. Shards make no trials: with --tune they want a
        tuning that is done, by --tune N --seeds 0 without --shard.
      scratch: train a small BERT from random weights, with a vocabulary learnt from
        the data, instead of the experiment's encoder.
      settings: the experiment.
    """

    file: ExperimentFile
    out: Annotated[str | None, arg(metavar="FOLDER")] = None
    overwrite: bool = False
    losses: Annotated[
        tuple[str, ...],
        arg(metavar="NAME ...", help_behavior_hint="(default: the experiment's)"),
    ] = ()
    seeds: int = 2
    tune: int = 0
    baselines: bool = True
    shard: Annotated[str | None, arg(metavar="I/N")] = None
    scratch: bool = False
    settings: Overrides = GENERIC

    def __call__(self, console: Console) -> None:
        """Train all, print the table and write the report."""
        from dicejax import comparison
        from dicejax.comparison import tuning
        from dicejax.training.progress import TrainingProgress

        if self.seeds < (0 if self.tune else 1):
            raise InputError(f"--seeds is {self.seeds}; want at least 1")
        objectives = self.settings.compared
        if self.losses:
            objectives = tuple(objective_named(name) for name in self.losses)
        if self.baselines:
            objectives = comparison.with_baselines(objectives, self.settings.task)
        out = self.out or f"runs/{self.settings.name}"
        jobs = comparison.jobs_of(self.settings, objectives, max(self.seeds, 1), out)
        comparison.shard_of(jobs, self.shard)  # refuses before anything is trained
        with TrainingProgress(console) as progress:
            tuned = tuning.tune(
                jobs,
                self.tune,
                out,
                progress,
                overwrite=self.overwrite,
                may_train=self.shard is None,
            )
            jobs = tuning.applied(jobs, tuned)
            if self.seeds:
                self._train(jobs, progress)
        report = self._tell(jobs, out, tuning.to_json(tuned)) if self.seeds else ""
        for line in tuning.remarks(tuned):
            print(line)
        print(f"runs in {out}{report}")

    def _train(self, jobs: Sequence[Job], progress: TrainingProgress) -> None:
        """Train what is this shard's, and move decisions of cross-entropy."""
        from dicejax import comparison

        mine = comparison.shard_of(jobs, self.shard)
        comparison.train_all(mine, progress, overwrite=self.overwrite)
        if self.baselines:
            comparison.score_baselines(mine, progress.say)

    def _tell(
        self, jobs: Sequence[Job], out: str, tuned: Mapping[str, Any] | None
    ) -> str:
        """Print table and verdicts, write the report; returns where, in words."""
        from dicejax import comparison
        from dicejax.comparison import report
        from dicejax.metrics.scores import heading

        to_come = comparison.unfinished(jobs) if self.shard else 0
        if to_come:
            print(f"{to_come} of {len(jobs)} runs are left to other shards: the one")
            print("that ends last writes the report")
            return ""
        rows = comparison.evaluated(jobs, out, tuned)
        shown, room = Console(), None
        if shown.is_terminal:
            room = shown.width
        else:  # a file has no width
            shown.width = 500
        shown.print(comparison.table(rows, self.settings.name, room))
        metric = heading(self.settings.task.primary_metric)
        print(f"{metric} beside {rows[0].loss}, for new seeds and new examples:")
        for line in comparison.remarks(rows):
            print(f"  {line}")
        return f", report in {report.write(rows, out)}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Profile:
    """Print how imbalanced a data set is, and what of it is too rare to learn.

    Negatives and positives of each label, suggested class weights, lengths, and the
    padding that packing saves. Reads the data and the encoder's tokenizer, no weights.

    Args:
      file: the experiment file; run with it and --help to see its values.
      out: folder for profile.json and the picture, profile.png and profile.svg.
      split: whose labels, lengths and padding are shown.
      rare: a label with fewer positives in the training split is too rare.
      json: print one JSON object, with all splits, instead of tables.
      loss: take this loss, at its defaults, instead of the experiment's.
      scratch: train a small BERT from random weights, with a vocabulary learnt from
        the data, instead of the experiment's encoder.
      settings: the experiment.
    """

    file: ExperimentFile
    out: Annotated[str | None, arg(metavar="FOLDER")] = None
    split: Literal["train", "dev", "test"] = "train"
    rare: int = 20
    json: bool = False
    loss: Annotated[str | None, arg(metavar="NAME")] = None
    scratch: bool = False
    settings: Overrides = GENERIC

    def __call__(self, console: Console) -> None:
        """Count and print."""
        from dicejax.analysis.profile import picture, profile, to_json
        from dicejax.analysis.profile.report import report

        if self.out is not None:
            picture.prepare(self.out)
        found = profile(self.settings, noting(console), rare=self.rare)
        if self.out is not None:
            picture.write(found, self.split, self.out)
        if self.json:
            print(to_json(found))
            return
        for table in report(found, self.split):
            Console().print(table, "")
        if self.out is not None:
            print(f"profile.json, profile.png and profile.svg in {self.out}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """Say how much memory a training step needs on each device of a mesh.

    Compiles the step without running it; reads the data and no weights. Where there are
    fewer devices than --mesh.data, --mesh.fsdp and --mesh.tensor name, they are
    simulated on the CPU.

    Args:
      file: the experiment file; run with it and --help to see its values.
      json: print one JSON object instead of a table.
      loss: take this loss, at its defaults, instead of the experiment's.
      rule: take this optimizer, at its defaults: adamw, lion, adafactor or lamb.
      scratch: a small BERT, with a vocabulary learnt from the data, instead of the
        experiment's encoder.
      settings: the experiment.
    """

    file: ExperimentFile
    json: bool = False
    loss: Annotated[str | None, arg(metavar="NAME")] = None
    rule: Annotated[str | None, arg(metavar="NAME")] = None
    scratch: bool = False
    settings: Overrides = GENERIC

    def __call__(self, console: Console) -> None:
        """Compile and print."""
        from dicejax.training.plan import plan, shown, simulate

        simulate(self.settings)
        found = plan(self.settings, noting(console))
        if self.json:
            print(json.dumps(dataclasses.asdict(found)))
            return
        for name, value in shown(found):
            print(f"{name:24} {value}")
