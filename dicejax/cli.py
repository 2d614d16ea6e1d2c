"""The command `dicejax`: train, evaluate, predict, compare, profile, export.

Every command that takes an experiment file can override any leaf of the experiment:
`dicejax train EXPERIMENT.py --optimizer.learning_rate 1e-4`.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, Union

import tyro
from rich.console import Console
from tyro.conf import AvoidSubcommands, Positional, arg

from dicejax import __version__, config, objectives
from dicejax.data.sources import SyntheticNER
from dicejax.errors import Diverged, InputError
from dicejax.metrics.scores import heading
from dicejax.objectives import Objective
from dicejax.training import optimizers
from dicejax.training.memory import use_huge_pages
from dicejax.training.optimizers import Optimizer
from dicejax.training.processes import Processes
from dicejax.training.signals import Stopped

ExperimentFile = Annotated[Positional[str], arg(metavar="EXPERIMENT.py")]
RunFolder = Annotated[Positional[str], arg(metavar="RUN")]
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
        from dicejax.analysis.comparison import names_of
        from dicejax.training.loop import train
        from dicejax.training.processes import is_first
        from dicejax.training.progress import TrainingProgress
        from dicejax.training.run import Run

        experiment = self.settings
        (name,) = names_of([experiment.objective])
        seed = experiment.training.seed
        out = self.out or f"runs/{experiment.name}/{name}/seed-{seed}"
        run = Run.create(out, experiment, overwrite=self.overwrite)
        if run.continues and run.is_finished:
            console.print(f"{out}: already finished; --overwrite trains it anew")
        with TrainingProgress(console, quiet=not is_first()) as progress:
            result = train(experiment, run, progress)
        if not is_first():
            return
        best = f"test, best checkpoint (step {result['best_step']})"
        print(_scores(result["test"], best))
        print(_scores(result["test_at_last_step"], "test, last checkpoint"))
        if "threshold" in result:
            tuned = f"{best}, threshold {result['threshold']['threshold']:.3g} of dev"
            print(_scores(result["test_with_tuned_threshold"], tuned))
        print(f"{result['tokens_per_s']:,.0f} tokens/s, run in {out}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Compare:
    """Train several losses with several seeds and print their scores side by side.

    Same data order, same initial weights, same budget for each loss. Finished runs in
    the folder are used again.

    Args:
      file: the experiment file; run with it and --help to see its values.
      out: folder of all runs; runs/NAME unless given.
      overwrite: train again what the folder holds.
      losses: the losses to compare, at their defaults; the experiment names some.
      seeds: runs per loss.
      scratch: train a small BERT from random weights, with a vocabulary learnt from
        the data, instead of the experiment's encoder.
      settings: the experiment.
    """

    file: ExperimentFile
    out: Annotated[str | None, arg(metavar="FOLDER")] = None
    overwrite: bool = False
    losses: Annotated[tuple[str, ...], arg(metavar="NAME ...")] = ()
    seeds: int = 2
    scratch: bool = False
    settings: Overrides = GENERIC

    def __call__(self, console: Console) -> None:
        """Train all and print the table."""
        from dicejax.analysis.comparison import compare, table
        from dicejax.training.progress import TrainingProgress

        if self.seeds < 1:
            raise InputError(f"--seeds is {self.seeds}; want at least 1")
        objectives = self.settings.compared
        if self.losses:
            objectives = tuple(_objective(name) for name in self.losses)
        out = self.out or f"runs/{self.settings.name}"
        with TrainingProgress(console) as progress:
            rows = compare(
                self.settings,
                objectives,
                self.seeds,
                out,
                progress,
                overwrite=self.overwrite,
            )
        Console().print(table(rows, self.settings.name))
        print(f"runs in {out}")


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
    data: Annotated[str | None, arg(metavar="FOLDER")] = None
    json: bool = False

    def __call__(self, console: Console) -> None:
        """Score and print."""
        from dicejax.training.inference import evaluate

        warn = _noting(console)
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
        print(_scores(content, what))
        for kind, row in sorted(content["per_type"].items()):
            print("  " + _scores(row, kind))
        if found.tuned is not None:
            tuned = f"{what}, threshold {found.threshold:.3g} of dev"
            print(_scores(found.tuned.to_json(), tuned))


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
    text: Annotated[Positional[tuple[str, ...]], arg(metavar="TEXT")] = ()
    file: Annotated[str | None, arg(metavar="FILE")] = None
    checkpoint: Literal["best", "last"] = "best"
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
        found = profile(self.settings, _noting(console), rare=self.rare)
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
    encoder_only: bool = False

    def __call__(self, console: Console) -> None:
        """Write the folder and say how it is opened."""
        from dicejax.training.export import export

        name = export(
            self.run, self.folder, self.checkpoint, encoder_only=self.encoder_only
        )
        print(f"written; transformers.{name}.from_pretrained({self.folder!r}) opens it")


COMMANDS = {
    "train": Train,
    "evaluate": Evaluate,
    "predict": Predict,
    "compare": Compare,
    "profile": Profile,
    "export": Export,
}


Command = Train | Compare | Evaluate | Predict | Profile | Export


def main() -> None:
    """Run the command line of this process."""
    use_huge_pages()
    sys.exit(run(sys.argv[1:]))


def run(argv: Sequence[str]) -> int:
    """Run a command line and return its exit status.

    0; 2 for bad input; 1 where training has diverged; 128 and a signal's number where
    that stopped a run, which is saved.

    Args:
      argv: the words after `dicejax`.
    """
    console = Console(stderr=True)
    try:
        if list(argv) == ["--version"]:
            print(f"dicejax {__version__}")
            return 0
        parse(argv)(console)
    except InputError as error:
        console.print(f"dicejax: {error}", style="red", markup=False, soft_wrap=True)
        return 2
    except Diverged as error:
        console.print(f"dicejax: {error}", style="red", markup=False, soft_wrap=True)
        return 1
    except Stopped as stopped:
        console.print(f"dicejax: {stopped}; the same command goes on from there")
        return stopped.status
    except KeyboardInterrupt:
        console.print("dicejax: interrupted")
        return 130
    return 0


def parse(argv: Sequence[str]) -> Command:
    """Turn the words of a command line into a command.

    The experiment file is loaded first, for its values are the defaults of the flags.

    Raises:
      InputError: the experiment file cannot be used.
      SystemExit: with status 2 after saying what is wrong with the flags.
    """
    name = argv[0] if argv else ""
    if name and not name.startswith("-") and name not in COMMANDS:
        near = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise InputError(
            f"unknown command {name!r}; known: {', '.join(COMMANDS)}{hint}"
        )
    if name not in COMMANDS:
        commands = tuple(
            Annotated[command, tyro.conf.subcommand(name)]
            for name, command in COMMANDS.items()
        )
        about = "F1-oriented training of NLP encoders on imbalanced data."
        kinds = Union[commands]  # noqa: UP007 - made at run time
        return _tyro(kinds, argv, prog="dicejax", description=about)
    command = COMMANDS[name]
    if command not in (Train, Compare, Profile):
        return _tyro(command, argv[1:], prog=f"dicejax {name}")
    settings = _named_experiment(argv) or GENERIC
    loss = _value_of(argv, "--loss")
    if loss is not None:
        settings = dataclasses.replace(settings, objective=_objective(loss))
    rule = _value_of(argv, "--rule")
    if rule is not None:
        settings = dataclasses.replace(settings, optimizer=_optimizer(rule))
    if "--scratch" in argv:
        settings = dataclasses.replace(settings, encoder=config.ScratchEncoder())
    default = command(file=tyro.MISSING, settings=settings)
    return _tyro(command, argv[1:], prog=f"dicejax {name}", default=default)


def _tyro(kind: Any, argv: Sequence[str], **options: Any) -> Any:
    return tyro.cli(
        kind,
        args=list(argv),
        use_underscores=True,
        config=(AvoidSubcommands,),
        **options,
    )


def _named_experiment(argv: Sequence[str]) -> config.Experiment | None:
    """Load the experiment file that the command line names, if it names one."""
    files = [word for word in argv[1:] if word.endswith(".py")]
    if not files and not {"-h", "--help"} & set(argv):
        given = [word for word in argv[1:2] if not word.startswith("-")]
        named = f"{given[0]} is none" if given else "none is named"
        raise InputError(f"{argv[0]} wants an experiment file, NAME.py: {named}")
    return config.load(files[0]) if files else None


def _value_of(argv: Sequence[str], flag: str) -> str | None:
    for word, following in zip(argv, [*argv[1:], None], strict=True):
        if word == flag:
            return following
        if word.startswith(flag + "="):
            return word.partition("=")[2]
    return None


def _objective(name: str) -> Objective:
    return _chosen("loss", name, objectives.by_short_name())


def _optimizer(name: str) -> Optimizer:
    return _chosen("optimizer", name, optimizers.by_short_name())


def _chosen(what: str, name: str, known: Mapping[str, type]) -> Any:
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise InputError(f"unknown {what} {name!r}; known: {', '.join(known)}{hint}")
    return known[name]()


def _noting(console: Console) -> Callable[[str], None]:
    """Return what prints a note, wrapped by nothing but the terminal."""
    return lambda text: console.print(
        f"note: {text}", highlight=False, markup=False, soft_wrap=True
    )


def _scores(scores: Mapping[str, Any], what: str) -> str:
    """Write scores in percent."""
    shown = [
        f"{heading(name)} {100 * value:.2f}"
        for name, value in scores.items()
        if isinstance(value, float)
    ]
    return f"{what}: {'  '.join(shown)}"
