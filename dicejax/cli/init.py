"""The command that begins with a user's own data: init."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Literal

from rich.console import Console
from tyro.conf import Positional, arg

from dicejax import config
from dicejax.cli.printing import noting
from dicejax.errors import InputError

FILE = "experiment.py"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Init:
    """Write an experiment file for your own data, after a look at it.

    Reads the data, counts labels and lengths, and writes FOLDER/experiment.py with
    settings that are a fair beginning, and comments on what was seen and what to try
    first. Of a single file, 15 % each are held out for dev and test.

    Args:
      kind: what is to be learnt. ner: columns, the tag last. pos: columns, the label
        last, or CoNLL-U. classification: a tab-separated file with named columns, or
        a label and a text on each line. qa: SQuAD's JSON.
      folder: where the file goes; made if need be.
      data: a file, or a folder with a train file and perhaps a dev and a test file.
      encoder: a model folder or a hub id, or "scratch" for random weights; chosen by
        the script of the texts unless given.
      overwrite: replace the file that the folder holds.
    """

    kind: Positional[Literal["ner", "pos", "classification", "qa"]]
    folder: Annotated[Positional[str], arg(metavar="FOLDER")]
    data: Annotated[str, arg(metavar="PATH")]
    encoder: Annotated[str | None, arg(metavar="NAME")] = None
    overwrite: bool = False

    def __call__(self, console: Console) -> None:
        """Look, and write."""
        from dicejax.analysis import starter
        from dicejax.analysis.profile import profile

        file = Path(self.folder) / FILE
        if file.exists() and not self.overwrite:
            raise InputError(
                f"{file}: is there already; name another folder, or replace it with "
                "--overwrite"
            )
        source, task = starter.source_of(self.kind, self.data), starter.KINDS[self.kind]
        name = file.resolve().parent.name or self.kind
        # Lengths and labels hardly depend on the tokenizer: no model is needed here.
        looked = config.Experiment(
            name=name,
            data=source,
            task=task(),
            training=config.Training(max_length=512),
        )
        found = profile(looked, noting(console))
        texts = looked.task.texts(looked.task.adapt(source.load().train[:1000]))
        suggested = starter.suggest(found, texts, self.encoder)
        text = starter.file_for(self.kind, name, str(file), source, found, suggested)
        _write(file, text)
        first = next(iter(found.splits["train"].outputs), None)
        print(f"{file}: written")
        if first is not None and first.ratio is not None:
            print(f"{first.ratio:.1f} {first.negative} to one of {first.positive}")
        print(f"next: dicejax profile {file}")
        print(f"      dicejax compare {file} --seeds 5")


def _write(file: Path, text: str) -> None:
    """Write the file in one move, after loading it as the commands will."""
    partial = file.with_name(f".{FILE}.partial")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(text, encoding="utf-8")
        config.load(partial)
        partial.replace(file)
    except OSError as error:
        raise InputError(
            f"{file}: cannot be written: {error.strerror or error}; name another folder"
        ) from error
    finally:
        partial.unlink(missing_ok=True)
