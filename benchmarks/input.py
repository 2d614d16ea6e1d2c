"""How fast texts become batches for the network, and what reading takes of memory.

One core encodes a data set for each kind of task, from examples to items: pieces per
second are those of the items, windows of a context counted each. Then it lays items
out in batches of about 32 sentences, packed or in buckets, with one worker and nothing
that uses them: tokens per second, padding not counted. The median over rounds is told.
A process of its own reads MSRA's train split, and its peak memory is told. Exits with
1 if a limit is broken.

usage:    python benchmarks/input.py DATA_FOLDER [--rounds 5]
          DATA_FOLDER holds conll2003/, squad_v1.1/, cluener2020/, mrpc/, msra/ and
          vocab/ with bert-base-uncased, bert-base-cased and bert-base-chinese.
needs:    pip install -e .
measured: see benchmarks/README.md
"""

from __future__ import annotations

import dataclasses
import os
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
from dicejax.data.plan import Plan, bucket_plan, packing_plan, rows_per_batch
from dicejax.data.readers import classification, cluener, conll, squad
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
    """What to measure.

    Args:
      data: the folder of data sets.
      rounds: how often each is encoded; the median counts.
    """

    data: Annotated[Positional[Path], tyro.conf.arg(metavar="DATA_FOLDER")]
    rounds: int = 5


@dataclasses.dataclass(frozen=True)
class Case:
    """A task and what it encodes."""

    name: str
    task: Task
    vocabulary: str
    read: Callable[[], Sequence[Any]]
    length: int
    limit: int


def cases(data: Path) -> list[Case]:
    """Return the cases of the folder."""

    def english():
        return conll.read(data / "conll2003/train.txt")

    def chinese():
        return cluener.read(data / "cluener2020/train.json")

    def questions():
        return squad.read(data / "squad_v1.1/dev.json")

    def pairs():
        return classification.read(data / "mrpc/train.tsv", classification.MRPC)

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
    """What laying out the batches of one epoch gave.

    Attributes:
      tokens: in the epoch.
      share: of the places that hold one.
      shapes: how many shapes of batches there are.
      plan_ms: milliseconds that the plan of an epoch takes.
      rate: tokens per second.
    """

    tokens: int
    share: float
    shapes: int
    plan_ms: float
    rate: float


def plans() -> dict[str, Callable[[Sequence[int]], Plan]]:
    """Return the ways to lay out examples, each with what makes a plan of lengths."""

    def packed(packing):
        def plan(lengths):
            rows = rows_per_batch(lengths, ROW_LENGTH, SENTENCES)
            return packing_plan(
                lengths, max_length=ROW_LENGTH, rows=rows, seed=0, packing=packing
            )

        return plan

    def buckets(most):
        def plan(lengths):
            return bucket_plan(
                lengths, max_length=ROW_LENGTH, rows=SENTENCES, seed=0, buckets=most
            )

        return plan

    return {
        "best fit": packed("best_fit"),
        "first fit": packed("first_fit"),
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
    found = {}
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
        found[name] = Filled(tokens, batches.share_filled, shapes, plan_ms, rate)
    return found


def peak_of_reading(path: Path) -> tuple[int, float]:
    """Read a file in a process of its own; return its sentences and its peak, MiB."""
    code = (
        "import sys; from dicejax.data.readers import conll\n"
        "found = conll.read(sys.argv[1])\n"
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


def main(settings: Settings) -> int:
    """Measure, print, and return 1 if a limit is broken."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    broken = False
    out = Table(title="pieces per second, one core")
    for heading in ("what", "pieces", "per second", "at least"):
        out.add_column(heading, justify="left" if heading == "what" else "right")
    for case in cases(settings.data):
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
    for case in (one for one in cases(settings.data) if one.name in IN_BATCHES):
        for name, way in tokens_per_s(case, settings.data, settings.rounds).items():
            broken |= way.rate < BATCHES_LIMIT
            out.add_row(
                case.name,
                name,
                f"{way.tokens:,}",
                f"{100 * way.share:.1f} %",
                str(way.shapes),
                f"{way.plan_ms:.0f}",
                f"{way.rate:,.0f}",
            )
    console.print(out, f"(each at least {BATCHES_LIMIT:,})")
    sentences, peak = peak_of_reading(settings.data / "msra/train.txt.gz")
    broken |= peak > MEMORY_LIMIT
    console.print(
        f"reading {sentences:,} MSRA sentences: peak {peak:.0f} MiB "
        f"(at most {MEMORY_LIMIT})"
    )
    return int(broken)


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Settings, description=__doc__)))
