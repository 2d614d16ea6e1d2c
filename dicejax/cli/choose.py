"""The command that chooses a model within a time."""

from __future__ import annotations

import argparse
import dataclasses
import os
import shlex
from pathlib import Path
from typing import Annotated, Any, get_args

from rich.console import Console
from tyro.conf import Positional, arg

from dicejax.cli.experiments import Scratch, Settings
from dicejax.cli.help import option
from dicejax.cli.init import FILE, Init, Kind
from dicejax.cli.printing import duration, print_table
from dicejax.errors import InputError
from dicejax.io.terminal import show

ExperimentOrData = Annotated[
    Positional[str],
    arg(
        metavar="EXPERIMENT.py|DATA",
        help="experiment file, quickstart, or data as init --data takes it, for which "
        "runs/NAME/experiment.py is written",
    ),
]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Choose:
    """Choose a model within a time, with a statement that holds.

    Models that are no fine-tuned encoders are tried first, then cross-entropy, class
    weights, a better head, other rates and lengths, and other losses: on dev alone. The
    best, and the cheapest of the first that dev does not separate from it, are trained
    again with fresh seeds and scored on test once. The same command resumes an
    interrupted search; with a longer budget it tries more.

    Args:
      budget: time of all, such as 30m or 2h.
      kind: what data is for, where its form does not tell it.
      out: output directory.
      margin: differences within this many points do not matter in practice.
    """

    file: ExperimentOrData
    budget: str = "30m"
    kind: Annotated[Kind | None, option("|".join(get_args(Kind)), "by its form")] = None
    out: Annotated[str | None, option("FOLDER", "runs/NAME/choose")] = None
    margin: float = 0.5
    scratch: Scratch = False
    settings: Settings = None

    def __call__(self, console: Console) -> None:
        """Search, confirm, and say what to use."""
        from dicejax.study.choose import choose
        from dicejax.training.progress import TrainingProgress

        choice = choose(
            self.settings,
            self.budget,
            out=self.out,
            margin=self.margin,
            progress=TrainingProgress(console),
        )
        print_table(choice.comparison)
        show(choice.sentence)
        run = shlex.quote(choice.run)
        spent = duration(choice.seconds)
        settings = "1 setting" if choice.tried == 1 else f"{choice.tried} settings"
        show(f"{settings} tried on dev in {spent}, test scored once")
        show(f"report in {choice.comparison.report}")
        show(f"next: dicejax predict {run} --file FILE")


def with_experiment(words: list[str], *, is_help: bool) -> list[str]:
    """Return the words of the command with an experiment file in the place of data.

    Help is that without a file.

    Raises:
      InputError: the path is neither an experiment file nor data, the data cannot be
        read, or the budget is no time, which is found before a file is written.
    """
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for flag in ("--kind", "--encoder.path", "--budget"):
        first.add_argument(flag, nargs="?")
    first.add_argument("--scratch", action="store_true")
    parsed, rest = first.parse_known_args(words)
    flags, data = vars(parsed), _data_among(rest)
    if data is None:
        if rest and rest[0][0] != "-" and not any(x.endswith(".py") for x in rest):
            raise InputError(f"{rest[0]}: no such experiment file or data")
        return words
    place = words.index(data)
    if is_help:
        return [*words[:place], *words[place + 1 :]]
    from dicejax.study.compare.until import seconds_of

    if flags["budget"] is not None:
        seconds_of(flags["budget"])
    encoder = "scratch" if flags["scratch"] else flags["encoder.path"]
    file = experiment_for(data, flags["kind"], encoder)
    return [*words[:place], file, *words[place + 1 :]]


def _data_among(words: list[str]) -> str | None:
    """Return the data that words name beside flags and their values, if any."""
    for before, word in zip(["", *words], words, strict=False):
        is_value = before.startswith("--") and "=" not in before
        if not is_value and word[-3:] != ".py" and os.path.exists(word):
            return word
    return None


def experiment_for(data: str, kind: str | None, encoder: str | None) -> str:
    """Return the experiment file for data, written by `init` if it is not there.

    Raises:
      InputError: the data cannot be read, or the file is of other data.
    """
    from dicejax import config
    from dicejax.formats import recognise

    folder = Path("runs", Path(os.path.abspath(data)).name.partition(".")[0])
    file = folder / FILE
    if file.exists():
        source: Any = config.load(file).data
        of_data = os.path.join(source.dir, source.train), source.dir
        if not any(os.path.abspath(x) == os.path.abspath(data) for x in of_data):
            raise InputError(f"{file}: is for {of_data[0]}; name it, or remove it")
        return str(file)
    made: Any = recognise.kind_of(data) if kind is None else kind
    Init(kind=made, folder=str(folder), data=data, encoder=encoder)(Console())
    return str(file)
