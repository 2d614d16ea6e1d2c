"""Throughput of the input pipeline, and peak memory of reading.

One core encodes a data set for each kind of task, from examples to items, in pieces per
second (windows of a context counted each). Then it packs items into batches of about 32
sentences, or fills buckets, with one worker and no consumer, in tokens per second
without padding. Figures are medians over rounds. Another process reads MSRA's train
split and reports its peak memory. Exits with 1 if a limit is broken.

usage:    python benchmarks/input.py DATA_FOLDER [--smallest]
          DATA_FOLDER holds conll2003/, squad_v1.1/, cluener2020/, mrpc/, msra/ and
          vocab/ with bert-base-uncased, bert-base-cased and bert-base-chinese.
needs:    pip install -e .
measured: see benchmarks/README.md
"""

from __future__ import annotations

import dataclasses
import os
import runpy
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.table import Table
from tyro.conf import Positional

from dicejax.data import tokenize
from dicejax.data.pipeline import Batches
from dicejax.data.plan import BatchPlan, bucket_plan, packing_plan, rows_per_batch
from dicejax.formats import ConllFiles, SquadFiles, TextFiles
from dicejax.tasks import (
    Classification,
    MachineReading,
    QuestionAnswering,
    Tagging,
    Task,
    TwoPointerNER,
)

TAGGING_LIMIT = 100_000  # pieces per second on one core
READING_LIMIT = 50_000
BATCHES_LIMIT = 1_000_000  # tokens per second of one worker
MEMORY_LIMIT = 1024  # MiB

# What is laid out in batches, with the word pieces of the 6-layer BERT that the other
# benchmarks train.
CLUENER = Path(__file__).parents[1] / "experiments/ner/cluener_files.py"
IN_BATCHES = ("tagging, CoNLL-2003", "pairs, MRPC")
VOCABULARY, SENTENCES, ROW_LENGTH = "bert-base-uncased", 32, 128

QUERIES = (
    ("ORG", "companies, clubs, parties and other organizations with a name"),
    ("PER", "names of people and of families"),
    ("LOC", "places with a name: countries, cities, regions, rivers"),
    ("MISC", "other names: nationalities, events, works of art, products"),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """Data and sizes.

    Args:
      data: folder of data sets.
      rounds: number of timings of each.
      smallest: smoke test with few examples and no limits.
    """

    data: Annotated[Positional[Path], tyro.conf.arg(metavar="DATA_FOLDER")]
    rounds: int = 5
    smallest: bool = False


@dataclasses.dataclass(frozen=True)
class Case:
    """Task with its examples."""

    name: str
    task: Task
    vocabulary: str
    read: Callable[[], Sequence[Any]]
    length: int
    limit: int


def cases(data: Path, smallest: bool) -> list[Case]:
    """Return the cases of the folder."""
    most = 40 if smallest else None

    def english():
        return ConllFiles.read_file(
            data / "conll2003/test.txt" if smallest else data / "conll2003/train.txt"
        )[:most]

    def chinese():
        read = runpy.run_path(str(CLUENER))["read"]
        return read(data / "cluener2020/train.json")[:most]

    def questions():
        return SquadFiles.read_file(data / "squad_v1.1/dev.json")[:most]

    def pairs():
        columns = {"first": "#1 String", "second": "#2 String", "label": "Quality"}
        columns |= {"separator": "\t", "quoted": False}
        return TextFiles.read_file(data / "mrpc/train.tsv", **columns)[:most]

    cased, uncased = "bert-base-cased", "bert-base-uncased"
    han = "bert-base-chinese"
    mrc = MachineReading(queries=QUERIES)
    return [
        Case("tagging, CoNLL-2003", Tagging(), cased, english, 128, TAGGING_LIMIT),
        Case("tagging, CLUENER", Tagging(), han, chinese, 128, TAGGING_LIMIT),
        Case("two pointers, CLUENER", TwoPointerNER(), han, chinese, 128, 0),
        Case("machine reading, CoNLL-2003", mrc, cased, english, 128, 0),
        Case(
            "windows of 384, SQuAD v1.1 dev",
            QuestionAnswering(),
            uncased,
            questions,
            384,
            READING_LIMIT,
        ),
        Case("pairs, MRPC", Classification(), uncased, pairs, 128, 0),
    ]


def pieces_per_s(case: Case, data: Path, rounds: int) -> tuple[int, float]:
    """Encode again and again; return the pieces, and the median of their rate."""
    examples = case.task.adapt(case.read())
    labels = case.task.label_names(examples)
    folder = data / "vocab" / case.vocabulary
    tokenizer = tokenize.read(folder, words=case.task.reads_words)
    rates = []
    for _ in range(rounds):
        start = time.perf_counter()
        items = case.task.encode(examples, tokenizer, labels, case.length)
        seconds = time.perf_counter() - start
        pieces = sum(map(len, items))
        rates.append(pieces / seconds)
    return pieces, statistics.median(rates)


@dataclasses.dataclass(frozen=True)
class Filled:
    """Measurements of laying out one epoch.

    Attributes:
      tokens: number of tokens in the epoch.
      share: share of places that hold a token.
      shapes: number of batch shapes.
      plan_ms: milliseconds to plan an epoch.
      rate: tokens per second.
    """

    tokens: int
    share: float
    shapes: int
    plan_ms: float
    rate: float


def plans() -> dict[str, Callable[[Sequence[int]], BatchPlan]]:
    """Return functions from lengths to a plan, by way of laying out."""

    def packed(lengths):
        rows = rows_per_batch(lengths, ROW_LENGTH, SENTENCES)
        return packing_plan(lengths, max_length=ROW_LENGTH, rows=rows, seed=0)

    def buckets(most):
        def plan(lengths):
            return bucket_plan(
                lengths, max_length=ROW_LENGTH, rows=SENTENCES, seed=0, buckets=most
            )

        return plan

    return {
        "best fit": packed,
        "4 buckets": buckets(4),
        "8 buckets": buckets(8),
    }


def tokens_per_s(case: Case, data: Path, rounds: int) -> dict[str, Filled]:
    """Fill the batches of an epoch again and again, in each way."""
    examples = case.task.adapt(case.read())
    labels = case.task.label_names(examples)
    folder = data / "vocab" / VOCABULARY
    tokenizer = tokenize.read(folder, words=case.task.reads_words)
    items = case.task.encode(examples, tokenizer, labels, ROW_LENGTH)
    filled = {}
    for name, make in plans().items():
        start = time.perf_counter()
        plan = make([len(item) for item in items])
        plan_ms = 1000 * (time.perf_counter() - start)
        layout = case.task.layout(tokenizer)
        batches = Batches([item.arrays for item in items], layout=layout, plan=plan)
        rates = []
        for _ in range(rounds):
            start = time.perf_counter()
            tokens = sum(batch.tokens for batch in batches.iterate(threads=1))
            rates.append(tokens / (time.perf_counter() - start))
        rate, shapes = statistics.median(rates), len(set(plan.widths.tolist()))
        filled[name] = Filled(tokens, batches.share_filled, shapes, plan_ms, rate)
    return filled


def peak_of_reading(path: Path) -> tuple[int, float]:
    """Read a file in another process; return its sentences and its peak, MiB."""
    code = (
        "import sys; from dicejax.formats import ConllFiles\n"
        "found = ConllFiles.read_file(sys.argv[1])\n"
        "peak = open('/proc/self/status').read().split('VmHWM:')[1].split()[0]\n"
        "print(len(found), peak)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        check=True,
        capture_output=True,
        text=True,
    )
    sentences, kibibytes = map(int, done.stdout.split())
    return sentences, kibibytes / 1024


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, and return 1 if a limit is broken."""
    settings = tyro.cli(Settings, description=__doc__, args=argv)
    if settings.smallest:
        settings = dataclasses.replace(settings, rounds=1)
    else:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    broken, measured = False, cases(settings.data, settings.smallest)
    out = Table(title="pieces per second, one core")
    for heading in ("what", "pieces", "per second", "at least"):
        out.add_column(heading, justify="left" if heading == "what" else "right")
    for case in measured:
        pieces, rate = pieces_per_s(case, settings.data, settings.rounds)
        broken |= rate < case.limit
        limit = f"{case.limit:,}" if case.limit else ""
        out.add_row(case.name, f"{pieces:,}", f"{rate:,.0f}", limit)
    console = Console()
    console.print(out)
    out = Table(title="tokens per second in batches, one worker")
    for heading in ("what", "batches"):
        out.add_column(heading)
    for heading in ("tokens", "filled", "shapes", "plan, ms", "per second"):
        out.add_column(heading, justify="right")
    for case in (x for x in measured if x.name in IN_BATCHES):
        for name, way in tokens_per_s(case, settings.data, settings.rounds).items():
            broken |= way.rate < BATCHES_LIMIT
            out.add_row(
                case.name,
                name,
                f"{way.tokens:,}",
                f"{100 * way.share:.1f}%",
                str(way.shapes),
                f"{way.plan_ms:.0f}",
                f"{way.rate:,.0f}",
            )
    console.print(out, f"(each at least {BATCHES_LIMIT:,})")
    file = "conll2003/test.txt" if settings.smallest else "msra/train.txt.gz"
    sentences, peak = peak_of_reading(settings.data / file)
    broken |= peak > MEMORY_LIMIT
    console.print(
        f"reading {sentences:,} sentences of {file}: peak {peak:.0f} MiB "
        f"(at most {MEMORY_LIMIT})"
    )
    return int(broken and not settings.smallest)


if __name__ == "__main__":
    sys.exit(main())
