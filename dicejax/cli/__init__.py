"""The command `dicejax`: init, train, compare, report, evaluate, predict and others.

Every command that takes an experiment file can override any leaf of the experiment:
`dicejax train EXPERIMENT.py --optimizer.learning_rate 1e-4`. Whatever takes long to
import is imported by the command that runs, so that help is immediate.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import difflib
import errno
import io
import os
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tyro
from rich.console import Console
from tyro.constructors import ConstructorRegistry

from dicejax import __version__
from dicejax.cli.choose import Choose, with_experiment
from dicejax.cli.experiments import Compare, Plan, Profile, Train
from dicejax.cli.help import description, epilog, flags_of, overview
from dicejax.cli.init import Init
from dicejax.cli.predict import Predict
from dicejax.cli.process import quieten, spare_copies, use_huge_pages
from dicejax.cli.review import Review
from dicejax.cli.runs import Evaluate, Export, Plot, Report
from dicejax.errors import Diverged, InputError, Stopped, first_line, hint, quote
from dicejax.io.terminal import literal

COMMANDS = {
    "init": Init,
    "train": Train,
    "evaluate": Evaluate,
    "predict": Predict,
    "compare": Compare,
    "choose": Choose,
    "report": Report,
    "review": Review,
    "profile": Profile,
    "plan": Plan,
    "export": Export,
    "plot": Plot,
}

ALL = ("--help-all", "--help_all")
HELP = ("-h", "--help", *ALL)
QUICKSTART = os.path.join(os.path.dirname(__file__), "quickstart.py")

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)

# Flags of earlier versions; those of the experiment are in `config.RENAMED`.
RENAMED = {
    "--rule": "is now --optimizer",
    "--no_controls": "is now --no-baselines",
    "--stack": "is gone: each run is trained alone; --shard divides runs among jobs",
}

# Settings as others call them, Hugging Face's trainer among them.
FOREIGN = {
    "lr": "learning_rate",
    "num_train_epochs": "epochs",
    "per_device_train_batch_size": "batch_size",
    "max_seq_length": "max_length",
    "model": "path",
    "model_name_or_path": "path",
}


def main() -> None:
    """Run the command line of this process."""
    if sys.stderr is None:  # closed: the next file that is opened would be it
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115  # to the end
    if sys.stdout is None:
        print("dicejax: standard output is closed; open it: > FILE", file=sys.stderr)
        sys.exit(2)
    if not {*HELP, "--version"} & set(sys.argv):
        use_huge_pages()
        spare_copies()
        quieten()
    try:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):  # its encoding may lack a letter
                stream.reconfigure(errors="backslashreplace")
        try:
            status = run(sys.argv[1:])
        finally:  # after help too, which ends in SystemExit
            sys.stdout.flush()
    except BrokenPipeError:  # the reader has closed the pipe, as `head` does
        _drop_output()
        status = 128 + signal.SIGPIPE
    except OSError as error:
        status = 1
        if error.errno not in FULL or error.filename is not None:
            traceback.print_exc()
        else:
            _drop_output()
            status = 2
            with contextlib.suppress(OSError):
                reason = f"output cannot be written: {error.strerror}; make room"
                print(f"dicejax: {reason}", file=sys.stderr)
    except Exception:
        traceback.print_exc()
        status = 1
    jax = sys.modules.get("jax")
    is_joined = jax is not None and jax.distributed.is_initialized()
    if is_joined and status not in (0, 128 + signal.SIGTERM):
        # The other processes wait for this one, so an exit that waits for them hangs.
        time.sleep(1)  # each reports an error that all have in common
        os._exit(status)
    sys.exit(status)


def _drop_output() -> None:
    """Let the rest be written nowhere; it would fail again when the process ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def run(argv: Sequence[str]) -> int:
    """Run a command line and return its exit status.

    Status 0; 2 for bad input; 1 for diverged training; 128 plus the signal's number if
    a signal stopped a run, which is saved.
    """
    console = Console(stderr=True)
    try:
        if list(argv) == ["--version"]:
            print(f"dicejax {__version__}")
            return 0
        command = parse(argv)
        file = getattr(command, "experiment", None)
        if file is None:
            command(console)
        else:
            from dicejax import config

            with config.classes_of(file):
                command(console)
    except (InputError, Diverged) as error:
        console.print(literal(f"dicejax: {error}"), style="red", soft_wrap=True)
        return 2 if isinstance(error, InputError) else 1
    except Stopped as stopped:
        console.print(literal(f"dicejax: {stopped}; the same command resumes it"))
        return stopped.status
    except KeyboardInterrupt:
        console.print("dicejax: interrupted")
        return 130
    except Exception as error:
        remedy = "check the address, your credentials and the network"
        if str(error).startswith("RESOURCE_EXHAUSTED"):
            remedy = "lower --training.max_length or --training.batch_size"
        elif not (any("://" in word for word in argv) and is_remote(error)):
            raise
        if isinstance(error, ImportError):  # fsspec names the package
            remedy = "the extras gcs and s3 have it"
        text = f"dicejax: {first_line(error)}: {remedy}"
        console.print(literal(text), style="red", soft_wrap=True)
        return 2
    return 0


def is_remote(error: Exception) -> bool:
    """Return whether fsspec or a package that it opens addresses with raised an error.

    Of the errors of the operating system they raise those without a number.

    >>> is_remote(OSError("Forbidden")), is_remote(OSError(28, "No space left"))
    (True, False)
    """
    package = type(error).__module__.partition(".")[0]
    if package in ("aiohttp", "botocore", "gcsfs", "google"):
        return True
    return isinstance(error, ImportError | OSError) and (
        getattr(error, "errno", None) is None
    )


def parse(argv: Sequence[str]) -> Any:
    """Parse a command line.

    The experiment file is loaded first: its values are the defaults of the flags. The
    command is called with the console that gets its notes and progress.

    Raises:
      InputError: the experiment file cannot be used, or a flag has a new name.
      SystemExit: with status 2, after an error message about the flags.
    """
    name, words = (argv[0], list(argv[1:])) if argv else ("", [])
    if name and not name.startswith("-") and name not in COMMANDS:
        names = ", ".join(COMMANDS)
        raise InputError(
            f"unknown command {quote(name)}; known: {names}{hint(name, COMMANDS)}"
        )
    if not argv or name in HELP:
        print(overview(COMMANDS))
        raise SystemExit(0)
    if name not in COMMANDS:
        raise InputError(
            f"unknown flag {quote(name)}; want COMMAND first: dicejax --help lists them"
        )
    _refuse(RENAMED, words)
    command = COMMANDS[name]
    tiers = command in (Train, Compare, Choose, Profile, Plan)
    if tiers and words[:1] == ["quickstart"]:
        words[0] = QUICKSTART
    if command is Choose:
        words = with_experiment(words, is_help=bool({*HELP} & {*words}))
    registry = _settings(name, command, words) if tiers else None
    return _tyro(command, words, name, tiers=tiers, registry=registry)


def _tyro(
    kind: Any, words: list[str], name: str, *, tiers: bool = False, **options: Any
) -> Any:
    """Parse the words of a command; its help ends with examples."""
    # With settings among the flags, tyro's usage leaves the file out.
    files = [word for word in words if tiers and word.endswith(".py")]
    usage = " ".join(["dicejax", *filter(None, [name]), *files[:1]])
    terminal = os.environ.get("TERM")
    if os.environ.get("NO_COLOR") and terminal:
        os.environ["TERM"] = "dumb"  # tyro heeds that alone
    is_all = bool({*ALL} & {*words})
    words = ["--help" if word in ALL else word for word in words]
    try:
        return tyro.cli(
            kind,
            args=words,
            prog=usage.replace(QUICKSTART, "quickstart"),
            description=description(kind),
            use_underscores=True,
            config=(tyro.conf.AvoidSubcommands,),
            **options,
        )
    except SystemExit as stop:
        if stop.code in (None, 0) and {*HELP} & {*words}:
            print(epilog(name, tiers=tiers and not is_all))
        raise
    finally:
        if terminal:
            os.environ["TERM"] = terminal


def _refuse(renamed: dict[str, str], words: list[str]) -> None:
    for word in words:
        flag = word.partition("=")[0]
        change = renamed.get(flag[:2] + flag[2:].replace("-", "_"))
        if change is not None:
            raise InputError(f"{flag} {change}")


def _refuse_abbreviations(words: list[str], command: type, leaves: Any) -> None:
    """Raise for a flag that names a setting without its group, as `--epochs` does."""
    fields = [field.name for field in dataclasses.fields(command)]
    for word in words:
        flag = word.partition("=")[0]
        name = flag.removeprefix("--").replace("-", "_")
        if name in (flag, "help", "help_all") or name.removeprefix("no_") in fields:
            continue
        if "." in name:
            continue
        last = FOREIGN.get(name, name)
        close = difflib.get_close_matches(name, fields, cutoff=0.85)
        meant = close + [x for x in leaves if x.rpartition(".")[2] == last != x]
        if meant:
            names = " or ".join(f"--{each}" for each in meant)
            raise InputError(f"unknown flag {flag}; did you mean {names}?")


def _settings(name: str, command: type, words: list[str]) -> ConstructorRegistry:
    """Return the rule of tyro for the settings of the experiment in the arguments."""
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for flag in ("--loss", "--optimizer"):
        first.add_argument(flag, nargs="?")
    first.add_argument("--scratch", action="store_true")
    chosen, rest = first.parse_known_args(words)
    files = [word for word in rest if word.endswith(".py")]
    is_brief = bool({"-h", "--help"} & set(rest))
    if not files:
        if is_brief or {*ALL} & set(rest):
            return flags_of(command, None, (), is_brief=is_brief)
        is_other = bool(rest) and not rest[0].startswith("-")
        named = f"{rest[0]} is none" if is_other else "none is named"
        if is_other and rest[0].isidentifier():
            near = sorted(Path("experiments").rglob(f"{rest[0]}.py"))
            named += f"; did you mean {near[0]}?" if near else ""
        raise InputError(f"{name} wants an experiment file, NAME.py: {named}")
    from dicejax import config, optimizers
    from dicejax.objectives.parsing import default_of, loss_named
    from dicejax.training.candidate import with_candidate

    _refuse(
        {f"--{old}": f"is now --{new}" for old, new in config.RENAMED.items()}, rest
    )
    settings = config.load(files[0])
    changes: dict[str, Any] = {}
    if chosen.optimizer:
        rules = optimizers.by_short_name()
        changes["optimizer"] = default_of("optimizer", chosen.optimizer, rules)
    if chosen.scratch:
        changes["encoder"] = config.ScratchEncoder()
    settings = dataclasses.replace(settings, **changes)
    if chosen.loss:
        settings = with_candidate(settings, loss_named(chosen.loss))
    if name in ("compare", "choose"):
        text = "is said by the names of losses: those ending with +prior have prior"
        _refuse({"--training.head_bias": text}, rest)
    leaves = config.leaves(settings)
    if "task.threshold" not in leaves:
        kind = type(settings.task).__name__
        text = f"is not for {kind}, which has no such threshold"
        _refuse({"--task.threshold": text}, rest)
    _refuse_abbreviations(rest, command, leaves)
    listed = ["objective"] * bool(chosen.loss) + ["optimizer"] * bool(chosen.optimizer)
    return flags_of(command, settings, listed, is_brief=is_brief)
