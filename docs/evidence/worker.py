"""Do the runs of the third protocol, one after another, as long as there is time.

Cells of `rows.py`, which are the paper's, are done where `--cells` names them.

    python docs/evidence/worker.py --data DATA --encoders minilm MODEL --seconds 3600

does the runs that the archives in docs/evidence/scores/third lack, in the order of the
protocol, and archives each when it has ended. After a kill the same command goes on: a
run continues from its last checkpoint. Several processes, also of one GPU, share the
work. SIGTERM ends a process after the step at hand, `touch STOP` after the run at hand.

One process does many runs, since it keeps what it has compiled. On CPUs each takes a
core (`nice -n 19 taskset -c 0`); on a GPU set JAX_DEFAULT_MATMUL_PRECISION=highest and
XLA_PYTHON_CLIENT_PREALLOCATE=false, so that several share it. `cargo.py` packs data and
encoders for a machine without a network.

    python docs/evidence/worker.py --merge FOLDER

adds the archives of another machine, which are in that folder. `--smallest` does a few
runs of a few sentences.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import archive
import filelock
import jax
import rows
import third
import tyro

from dicejax.cli.process import spare_copies, use_huge_pages
from dicejax.errors import Diverged, InputError, Stopped
from dicejax.training.train import train

MOST_MAPS = 20_000
"""Memory maps with which programs are forgotten; Linux grants a process 65,530."""
LENGTH = "--training.max_length"
SMALLEST = (
    *("--data.max_dev", "8", "--data.max_test", "8"),
    *("--training.rows_per_update", "2"),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """What to do.

    Args:
      data: folder of all data.
      encoders: folder of each encoder, by its name in the protocol.
      runs: folder for the runs, each of which is deleted when it is archived.
      seconds: time after which the process ends, with the step at hand.
      stop: file whose presence ends the process after the run at hand.
      cells: data and encoders such as conll2003-minilm; by default all of the protocol
        whose data and encoder are at hand.
      merge: folder of archives of another machine to add; nothing is run.
      smallest: do a few runs of a few sentences.
    """

    data: Path = Path("DATA")
    encoders: dict[str, Path] = dataclasses.field(default_factory=dict)
    runs: Path = Path("runs/third")
    seconds: float = 365 * 86400
    stop: Path = Path("STOP")
    cells: tuple[str, ...] = ()
    merge: Path | None = None
    smallest: bool = False


def main(argv: Sequence[str] | None = None) -> int:
    """Do runs until the time is over or none is left."""
    settings = tyro.cli(Settings, description=__doc__, use_underscores=True, args=argv)
    if settings.merge is not None:
        merge(settings.merge)
        return 0
    cells = []
    by_name = {cell.name: cell for cell in (*third.CELLS, *rows.CELLS)}
    if unknown := [name for name in settings.cells if name not in by_name]:
        print(f"worker.py: no cell {unknown[0]}; there are {', '.join(by_name)}")
        return 2
    for cell in [by_name[x] for x in settings.cells] or third.CELLS:
        if cell.encoder.name not in settings.encoders:
            print(f"{cell.name}: left out, --encoders names no {cell.encoder.name}")
        elif not (folder := settings.data / cell.data.folder).is_dir():
            print(f"{cell.name}: left out, there is no folder {folder}")
        else:
            cells.append(smallest(cell) if settings.smallest else cell)
    if not cells:
        print("worker.py: no cell has data and encoder")
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # while nothing is trained
    signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGTERM))
    signal.setitimer(signal.ITIMER_REAL, settings.seconds)
    try:
        while not settings.stop.exists() and do_next(cells, settings):
            forget_programs()
    except Stopped as stop:
        print(f"stopped after step {stop.step}; the same command goes on", flush=True)
    except InputError as error:
        print(f"worker.py: {error}", flush=True)
        return 2
    return 0


def do_next(cells: Sequence[third.Cell], settings: Settings) -> bool:
    """Do the first run that no other process does; return whether one was left."""
    others = (length for cell in cells for length in cell.data.samples)
    for length in dict.fromkeys([*third.LENGTHS, *others]):
        left = [run for cell in cells for run in waiting(cell, length)]
        if any(attempt(run, length, settings) for run in left):
            return True
        if left:  # others do them, and what comes next depends on their results
            time.sleep(5)
            return True
    return False


def waiting(cell: third.Cell, length: int) -> list[third.Run]:
    """Return the runs to do next, by what is archived at the moment."""
    archive.read.cache_clear()
    return cell.waiting(length) if length in cell.data.samples else []


def attempt(run: third.Run, length: int, settings: Settings) -> bool:
    """Do a run and archive it, unless another process does it."""
    data, encoder = settings.data, settings.encoders[run.cell.encoder.name]
    job = run.job(settings.runs, data, encoder)
    lock = Path(f"{job.folder}.lock")
    lock.parent.mkdir(parents=True, exist_ok=True)
    try:
        with filelock.FileLock(lock, blocking=False):
            if run not in waiting(run.cell, length):
                return True  # another has just ended it
            clocks = time.monotonic(), time.process_time()
            with contextlib.suppress(Diverged):
                is_trial = run.length is None
                options = {"progress": False, "score_test": not is_trial}
                train(job.experiment, job.folder, **options)
            with filelock.FileLock(archive.SCORES / third.PART / ".lock"):
                archive.read.cache_clear()
                score = run.archive(job)
            shutil.rmtree(job.folder)
    except filelock.Timeout:
        return False
    wall, cpu = time.monotonic() - clocks[0], time.process_time() - clocks[1]
    now = time.strftime("%H:%M:%S")
    print(f"{now} {run.folder}: {score}, {wall:.0f} s, CPU {cpu:.0f} s", flush=True)
    return True


def forget_programs() -> None:
    """Release compiled programs before the memory maps that they hold run out."""
    maps = Path("/proc/self/maps")
    if maps.exists() and maps.read_bytes().count(b"\n") > MOST_MAPS:
        jax.clear_caches()
        gc.collect()


def merge(folder: Path) -> None:
    """Add the archives and trials of another machine."""
    with filelock.FileLock(archive.SCORES / third.PART / ".lock"):
        parts = {cell.name: cell.part for cell in (*third.CELLS, *rows.CELLS)}
        for file in sorted(folder.glob("*.npz")):
            name = f"{parts[file.stem.rpartition('-')[0]]}/{file.stem}"
            both = archive.merged(archive.read(name), archive.read_file(file))
            archive.write(both, archive.file_of(name))
            print(f"{name}: {len(both.runs)} runs")
        for file in sorted(folder.glob("*-trials.jsonl")):
            print(f"{file.name}: {third.merge_trials(file)} trials")


def smallest(cell: third.Cell) -> third.Cell:
    """Return a cell of two arms, one rate and two seeds, with a few sentences."""
    rate, length = cell.encoder.first[0], next(iter(cell.data.samples))
    flags = (*cell.data.flags, *SMALLEST)
    if LENGTH not in flags:  # reading has its windows
        flags += LENGTH, "64"
    data = dataclasses.replace(cell.data, flags=flags, samples={length: (24, 2)})
    encoder = dataclasses.replace(cell.encoder, rates=(rate,), first=(rate,))
    changed = {"arms": cell.arms[:2], "seeds": cell.seeds[:2]}
    return dataclasses.replace(cell, data=data, encoder=encoder, **changed)


if __name__ == "__main__":
    use_huge_pages()
    spare_copies()
    sys.exit(main())
