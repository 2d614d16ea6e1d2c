"""The command `dicejax`: init, train, compare, report, evaluate, predict and others.

Every command that takes an experiment file can override any leaf of the experiment:
`dicejax train EXPERIMENT.py --optimizer.learning_rate 1e-4`.
"""

from __future__ import annotations

import dataclasses
import os
import signal
import sys
from collections.abc import Sequence
from typing import Annotated, Any, Union

import tyro
from rich.console import Console
from tyro.conf import AvoidSubcommands

from dicejax import __version__, config
from dicejax.cli.choices import hint, objective_named, optimizer_named
from dicejax.cli.experiments import GENERIC, Compare, Plan, Profile, Train
from dicejax.cli.init import Init
from dicejax.cli.quiet import quieten
from dicejax.cli.report import Report
from dicejax.cli.runs import Evaluate, Export, Plot, Predict
from dicejax.errors import Diverged, InputError
from dicejax.training.devices.memory import use_huge_pages
from dicejax.training.signals import Stopped

COMMANDS = {
    "init": Init,
    "train": Train,
    "evaluate": Evaluate,
    "predict": Predict,
    "compare": Compare,
    "report": Report,
    "profile": Profile,
    "plan": Plan,
    "export": Export,
    "plot": Plot,
}


Command = (
    Init
    | Train
    | Compare
    | Report
    | Evaluate
    | Predict
    | Profile
    | Plan
    | Export
    | Plot
)


def main() -> None:
    """Run the command line of this process."""
    use_huge_pages()
    quieten()
    try:
        status = run(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:  # who reads has had enough, as `head` has
        # What is left would be written, and fail again, when the process ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 128 + signal.SIGPIPE
    sys.exit(status)


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
        command = parse(argv)
        with config.classes_of(getattr(command, "experiment", None)):
            command(console)
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
        names = ", ".join(COMMANDS)
        raise InputError(
            f"unknown command {name!r}; known: {names}{hint(name, COMMANDS)}"
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
    if command not in (Train, Compare, Profile, Plan):
        return _tyro(command, argv[1:], prog=f"dicejax {name}")
    settings = _named_experiment(argv) or GENERIC
    loss = _value_of(argv, "--loss")
    if loss is not None:
        settings = dataclasses.replace(settings, objective=objective_named(loss))
    rule = _value_of(argv, "--rule")
    if rule is not None:
        settings = dataclasses.replace(settings, optimizer=optimizer_named(rule))
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
