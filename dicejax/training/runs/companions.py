"""Which runs one program steps together, noted in the folder of each.

Sums are rounded as the compiled program orders them, so a run ends with the same digits
only in a program of the same size: runs that were cut off go on as they were begun.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterable, Mapping

from dicejax.errors import InputError
from dicejax.files import write_whole
from dicejax.training.run_folder import Run

FILE = "companions.json"


@dataclasses.dataclass(frozen=True)
class Companions:
    """The runs of a stack.

    Attributes:
      paths: of their folders, by place.
      sequences: for which a row of their batches has room.
    """

    paths: tuple[str, ...]
    sequences: int

    @classmethod
    def of(cls, runs: Iterable[Run], sequences: int) -> Companions:
        """Return those that runs are to each other."""
        return cls(tuple(map(_path, runs)), sequences)

    @classmethod
    def noted(cls, run: Run) -> Companions | None:
        """Read what a run's folder notes; None where it was stepped by itself.

        Raises:
          InputError: the file cannot be read.
        """
        file = run.path / FILE
        if not file.exists():
            return None
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            names, sequences = list(content["runs"]), int(content["sequences"])
            paths = tuple(os.path.normpath(f"{_path(run)}/{name}") for name in names)
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{file}: damaged: {error}; delete it, and the run goes on by itself"
            ) from error
        return cls(paths, sequences)

    def note(self, run: Run) -> None:
        """Write it to a run's folder, or nothing where the run is by itself.

        By names from there, so that the folders can be moved together.
        """
        if len(self.paths) == 1:
            (run.path / FILE).unlink(missing_ok=True)
            return
        names = [os.path.relpath(path, _path(run)) for path in self.paths]
        content = {"runs": names, "sequences": self.sequences}
        write_whole(run.path, FILE, json.dumps(content, indent=2) + "\n")

    def place(self, run: Run) -> int:
        """Return the place of a run.

        Raises:
          ValueError: it has none.
        """
        return self.paths.index(_path(run))


def begun_together(runs: Mapping[str, Run]) -> dict[str, Companions]:
    """Return the companions of the runs that have any.

    A kill at the beginning leaves runs that note nothing yet but are noted by others.

    Args:
      runs: unfinished ones, by any name.

    Returns:
      What each notes, or what is noted of it, by its name.
    """
    noted = {name: Companions.noted(run) for name, run in runs.items() if run.continues}
    own = {name: found for name, found in noted.items() if found is not None}
    for companions in dict.fromkeys(own.values()):
        for name, run in runs.items():
            if _path(run) in companions.paths:
                own.setdefault(name, companions)
    return own


def _path(run: Run) -> str:
    return os.path.normpath(str(run.path))
