"""The commands that take an experiment: train, compare, profile, plan."""

from __future__ import annotations

import dataclasses
import json
import shlex
import time
from typing import TYPE_CHECKING, Annotated, Any, Literal

from rich.console import Console
from tyro.conf import Positional, Suppress, arg

from dicejax.cli.help import option
from dicejax.cli.printing import (
    class_lines,
    duration,
    note_printer,
    print_table,
    score_lines,
    warn_of_cuts,
)
from dicejax.errors import InputError, first_line
from dicejax.io.terminal import show

if TYPE_CHECKING:
    from dicejax.training.train import Result

ExperimentFile = Annotated[
    Positional[str],
    arg(
        metavar="EXPERIMENT.py",
        help="experiment file, or quickstart; --help after it lists its settings",
    ),
]
Loss = Annotated[
    str | None,
    option(
        "NAME",
        "the experiment's",
        "override the experiment's loss, using its default settings; with NAME+prior "
        "its heads begin at the class frequencies, else at zero.",
    ),
]
OptimizerName = Annotated[
    str | None,
    option(
        "NAME",
        "the experiment's",
        "override the experiment's optimizer, using its default settings: adamw, or "
        "the experiment file's own.",
    ),
]
Scratch = Annotated[
    bool,
    arg(
        help="replace the experiment's encoder with a small, randomly initialized BERT "
        "and a vocabulary learned from the data."
    ),
]
HEARTBEAT_S = 20
"""Seconds of silence after which a process is lost; JAX's default is 100."""
# An Experiment, once its file is loaded: see `cli.help.flags_of`.
Settings = Annotated[Any, Suppress]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Processes:
    """Connect the processes of one run.

    Args:
      find: let JAX detect them under Slurm, Open MPI, Kubernetes and Cloud TPU.
      coordinator: address of the first process, HOST:PORT, where JAX cannot find it.
      count: number of processes; goes with `coordinator`.
      index: index of this process, from 0; goes with `coordinator`.
    """

    find: bool = False
    coordinator: str | None = None
    count: int | None = None
    index: int | None = None

    def join(self) -> None:
        """Connect to the other processes, if there are any.

        Raises:
          InputError: the settings contradict each other, or nothing answers.
        """
        explicit = (self.coordinator, self.count, self.index)
        if explicit == (None, None, None) and not self.find:
            return
        if not self.find:
            if self.coordinator is None or self.count is None or self.index is None:
                raise InputError(
                    "processes: --processes.coordinator HOST:PORT, --processes.count "
                    "and --processes.index go together"
                )
            if not 0 <= self.index < self.count:
                raise InputError(
                    f"processes: index is {self.index}; want 0 to {self.count - 1}"
                )
        import jax

        try:
            jax.distributed.initialize(*explicit, heartbeat_timeout_seconds=HEARTBEAT_S)
        except (ValueError, RuntimeError) as error:
            raise InputError(
                f"processes: JAX does not reach the others: {first_line(error)}; name "
                "the first with --processes.coordinator HOST:PORT --processes.count N "
                "--processes.index I"
            ) from error


@dataclasses.dataclass(frozen=True, kw_only=True)
class Train:
    """Train one experiment and score it on the test split.

    The run folder holds metrics.jsonl, TensorBoard files, the best and the last
    checkpoints and result.json. SIGTERM and Ctrl-C save the run first; the same command
    resumes an interrupted run.

    Args:
      out: output directory.
      overwrite: replace the run in the output directory.
      processes: connect the processes of a distributed run.
    """

    file: ExperimentFile
    out: Annotated[str | None, option("FOLDER", "runs/NAME/LOSS/seed-N")] = None
    overwrite: bool = False
    loss: Loss = None
    optimizer: OptimizerName = None
    scratch: Scratch = False
    processes: Processes = Processes()
    settings: Settings = None

    def __call__(self, console: Console) -> None:
        """Train."""
        begin = time.monotonic()
        self.processes.join()
        from dicejax.training.processes import is_main_process
        from dicejax.training.progress import TrainingProgress, settings_line
        from dicejax.training.train import train

        progress = TrainingProgress(console, quiet=not is_main_process())
        progress.say(settings_line(self.settings))
        result = train(
            self.settings, self.out, overwrite=self.overwrite, progress=progress
        )
        if is_main_process():
            self._end(console, result, duration(time.monotonic() - begin))

    def _end(self, console: Console, result: Result, time: str) -> None:
        """Print scores, what went wrong, and what to do next."""
        from dicejax.metrics.guarantees import guarantee_of
        from dicejax.metrics.thresholds import describe
        from dicejax.training.outcome import remedy

        test, best = (
            result.test or {},
            f"test, best checkpoint (step {result.best_step})",
        )
        metric = result.primary_metric
        for line in score_lines(test, best, metric):
            show(line)
        for line in class_lines(test.get("per_type", {})):
            show(f"  {line}")
        last = result.test_at_last_step or {}
        for line in score_lines(last, "test, last checkpoint", metric):
            show(line)
        if result.threshold and result.test_with_tuned_threshold:
            tuned = f"{best}, {describe(result.threshold['threshold'])} of dev"
            for line in score_lines(result.test_with_tuned_threshold, tuned, metric):
                show(line)
        guarantee = guarantee_of(result.threshold)
        if guarantee is not None:
            if observed := result.observed:
                show(guarantee.compare(observed))
            for text in guarantee.warnings:
                show(f"warning: {text}")
        if result.calibration_on_test is not None:
            show(f"{best}, probabilities: {result.calibration_on_test}")
        show(f"{time}, {result.tokens_per_s:,.0f} tokens/s, run in {result.folder}")
        warn_of_cuts(console, result.cut)
        if result.skipped:
            show(
                f"warning: {result.skipped:,} of {result.steps:,} updates skipped: no "
                "finite loss or gradient; a lower --optimizer.learning_rate may help"
            )
        if result.nothing_learnt is not None:
            cause = remedy(self.settings, result.to_json())
            show(f"Nothing learnt: {result.nothing_learnt}.")
            show(f"Likely cause: {cause}, with --overwrite.")
            return
        run, options = shlex.quote(result.folder), ""
        parts = ("data", "task", "encoder", "objective", "optimizer")
        classes = [type(getattr(self.settings, part)) for part in parts]
        if not all(cls.__module__.startswith("dicejax.") for cls in classes):
            options = f" --experiment {shlex.quote(self.file)}"
        show(f"next: dicejax predict {run} --file FILE{options}")
        show(f"      dicejax evaluate {run} --predictions errors.jsonl{options}")
        show(f"      dicejax compare {shlex.quote(self.file)} --seeds 5")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Compare:
    """Train several losses and test whether any beats cross-entropy.

    Every loss is trained with every seed: same data order, same initial weights, same
    budget. Finished runs in the output directory are reused, interrupted ones resume,
    diverged ones are counted. Differences are reported with confidence intervals over
    seeds and test examples and p-values corrected for the number of losses.

    Args:
      out: output directory of all runs.
      overwrite: train the runs in the output directory again.
      losses: losses to compare, with their default settings except those given after
        a colon (dsc:alpha=1,smooth=0.01). The paper's and its code's are wce fl dl
        dl-set tl dsc-eq11 dsc-official. ce+prior (any loss +prior) has heads that begin
        at the class frequencies and learn ten times as fast. Cross-entropy is always
        included.
      seeds: runs per loss; 0 with --tune to stop after tuning. Fewer than 3 have no
        verdict. More can be added later: error rates hold over all looks.
      until: decided = add seeds until each loss is better, worse, practically equal or
        hopeless.
      budget: time after which --until begins no further seeds, as 2h or 90m.
      margin: differences within this many points count as practically equal.
      tune: tuning trials per loss, cross-entropy included: they vary the learning rate
        and the loss's hyper-parameters that have their defaults; the first trial
        uses the given settings. Trials are scored on dev and use seed 1000000, which
        no compared run has. With --resample each seed S has its own trials, with
        seed and sample 1000000 + S.
      baselines: also score cheap baselines. The most frequent class (majority), and
        logistic regressions on words (tfidf) and on the encoder as it is (frozen), are
        fitted in seconds to minutes. Cross-entropy with class weights is one more loss
        to train, and in trainings of fewer than 250 updates so is ce+prior;
        cross-entropy with logit adjustment or a threshold chosen on dev is none.
      resample: draw another training sample for each seed (with --data.max_train), so
        that verdicts hold for training data of this size and not for one sample.
      shard: train only part I of N, every N-th run, for job arrays that share the
        output directory. With --seeds 0, tune only every N-th loss: do that
        first. With --resample each shard tunes its own runs.
    """

    file: ExperimentFile
    out: Annotated[str | None, option("FOLDER", "runs/NAME")] = None
    overwrite: bool = False
    losses: Annotated[tuple[str, ...], option("NAME ...", "the experiment's")] = ()
    seeds: int = 3
    until: Annotated[Literal["decided"] | None, arg(metavar="decided")] = None
    budget: Annotated[str | None, arg(metavar="TIME")] = None
    margin: float = 0.5
    tune: int = 0
    baselines: bool = True
    resample: bool = False
    shard: Annotated[str | None, arg(metavar="I/N")] = None
    scratch: Scratch = False
    settings: Settings = None

    def __call__(self, console: Console) -> None:
        """Train all, print the table and write the report."""
        from dicejax.study.compare import compare
        from dicejax.study.compare.tuning import remarks
        from dicejax.training.progress import TrainingProgress

        left_out = ("file", "scratch", "settings")
        options = {k: v for k, v in vars(self).items() if k not in left_out}
        options["progress"] = TrainingProgress(console)
        comparison = compare(self.settings, **options)
        if comparison.unfinished:
            tuning = ("trials", "tuning.json")
            left, file = ("runs", "the report") if self.seeds else tuning
            show(f"left to other shards: {comparison.unfinished} {left}")
            show(f"the last shard to finish writes {file}")
        if comparison.rows:
            print_table(comparison)
        for line in [*comparison.lines(), *remarks(comparison.tuning)]:
            show(line)
        report = f", report in {comparison.report}" if comparison.report else ""
        show(f"runs in {comparison.folder}{report}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Profile:
    """Report how imbalanced a data set is, and its rare labels.

    Counts negatives and positives per label and suggests class weights; shows lengths
    and the padding that packing saves. Reads the data and the tokenizer, no weights.

    Args:
      out: output directory for profile.json and its plot, profile.png and profile.svg.
      split: split whose labels, lengths and padding are shown.
      rare: a label with fewer training positives is reported as rare.
      json: print one JSON object with all splits instead of tables.
    """

    file: ExperimentFile
    out: Annotated[str | None, arg(metavar="FOLDER")] = None
    split: Literal["train", "dev", "test"] = "train"
    rare: int = 20
    json: bool = False
    loss: Loss = None
    scratch: Scratch = False
    settings: Settings = None

    def __call__(self, console: Console) -> None:
        """Count and print."""
        from etils import epath

        from dicejax.io.files import require_writable
        from dicejax.study.profile import profile, report, to_json

        if self.out is not None:
            require_writable(epath.Path(self.out))
        counts = profile(self.settings, note_printer(console), rare=self.rare)
        if self.out is not None:
            report.write(counts, self.split, self.out)
        if self.json:
            show(to_json(counts))
            return
        for table in report.report(counts, self.split):
            Console().print(table, "")
        if self.out is not None:
            show(f"profile.json, profile.png and profile.svg in {self.out}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """Estimate memory, collectives and time of a step before training.

    Compiles the training step without running it; reads the data and no weights. With
    --topology it is compiled for TPUs or GPUs that this machine lacks, and what does
    not fit ends in settings that do. Else, if there are fewer devices than --mesh.data,
    --mesh.fsdp and --mesh.tensor ask for, they are simulated on the CPU, for memory
    alone.

    Args:
      topology: devices to compile for, as KIND:SIZE. TPUs: v4:2x2x1, v5e:4x4,
        v5p:2x2x1, v6e:2x2, tpu7x:2x2x1 (pip install -e '.[plan-tpu]'); GPUs of one
        host: h100:8, h200:8, a100:8 (pip install -e '.[plan-gpu]').
      find: try meshes, micro-batches and --training.remat for the topology, and list
        those that fit, fastest bound first.
      json: print one JSON object instead of a table.
    """

    file: ExperimentFile
    topology: Annotated[str | None, arg(metavar="KIND:SIZE")] = None
    find: bool = False
    json: bool = False
    loss: Loss = None
    optimizer: OptimizerName = None
    scratch: Scratch = False
    settings: Settings = None

    def __call__(self, console: Console) -> None:
        """Compile and print."""
        if self.find and self.topology is None:
            raise InputError("plan: --find wants --topology, the devices to plan for")
        from dicejax.planning import search, step, topologies
        from dicejax.training.setup import prepare

        note = note_printer(console)
        if self.topology is None:
            step.simulate(self.settings.mesh)
            memory = step.plan_memory(prepare(self.settings, note, weights=False), note)
            text, remedy = json.dumps(dataclasses.asdict(memory)), None
        else:
            topology = topologies.parse_topology(self.topology)
            topologies.without_devices()
            devices = topology.devices()
            if not self.find:  # an error of the mesh needs no data
                self.settings.mesh.make(devices)
            setup = prepare(self.settings, note, weights=False)
            if self.find:
                result = search.find(setup, topology, note)
                show(result.to_json() if self.json else result.table())
                return
            plan = search.plan(setup, topology, note)
            memory, text, remedy = plan.step, plan.to_json(), plan.remedy
        if self.json:
            show(text)
            return
        for name, value in step.lines(memory):
            show(f"{name:24} {value}")
        if remedy:
            show(remedy)
