r"""Rows of the paper that free data allow, as cells for `worker.py`.

    python docs/evidence/rows.py DATA OUT

writes four data sets of the rows below OUT, from those in DATA: SQuAD 2.0 whose train
has questions without an answer, dev of Quoref in three parts, since its train is not at
hand, pairs of QQP of which no question is in two splits, and Ritter's tweets in three
splits, since they are released in one file.
With links to the other folders of DATA beside them

    python docs/evidence/worker.py --data OUT --cells sst5-minilm \
        --encoders minilm MODEL

does the runs of a cell. Nothing is searched: all arms have one rate, and the head of
`ce+prior`, for MSRA's entities and table 5's Quoref every head, ten times that.
"""

from __future__ import annotations

import dataclasses
import json
import random
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import archive
import third
from third import Cell, DataSet, Setting

PART = "rows"
"""The folder of the archives."""
SEEDS = range(3)
OF_SETS = {
    "ce": "ce",
    "wce": "wce",
    "fl": "focal",
    "dl": "dl-set",
    "dsc": "dsc-official",
}
OF_ELEMENTS = OF_SETS | {"dl": "dl"}
"""Our loss by that of the paper: dice over the batch, or of each element."""
ARTICLE = {"ce": "ce", "lsr": "ce:label_smoothing=0.1", "focal": "focal", "ghm": "ghm"}
ALPHAS = {
    alpha: f"tversky+prior:alpha={alpha:g},beta={1 - alpha:g},smooth=0.01"
    for alpha in (tenths / 10 for tenths in range(1, 10))
}


@dataclasses.dataclass(frozen=True, eq=False)
class Published:
    """A cell with the published rows that it is of.

    Attributes:
      cell: its data, encoder, arms and seeds.
      place: table, data set and model of the rows, as in experiments/paper.toml.
      losses: our loss by theirs.
      share: the training data, in words.
      note: what else is to be known of our runs.
    """

    cell: Cell
    place: tuple[str, str, str]
    losses: dict[str, str]
    share: str
    note: str = ""


def _published(
    place: tuple[str, str, str],
    data: DataSet,
    losses: dict[str, str],
    share: str,
    *,
    rate: float,
    arms: Iterable[str],
    encoder: third.Encoder = third.MINILM,
    factor: float = 1.0,
    prior_factor: float = 10.0,
    note: str = "",
) -> Published:
    arms = tuple(arms)
    settings = {
        arm: Setting(rate, prior_factor if "+prior" in arm else factor) for arm in arms
    }
    cell = Cell(data, encoder, arms, SEEDS, part=PART, settings=settings)
    if factor != 1:
        note = f"{note} All heads have {factor:g} times the encoder's rate.".strip()
    if {*_NARROW} <= {*data.flags}:
        note = f"{note} Trained in bfloat16.".strip()
    return Published(cell, place, losses, share, note)


_NARROW = ("--training.precision", "bfloat16")
"""Flags of cells that are trained so, as the experiments' files say; float32 before."""
_TEXTS = ("--encoder.pooling", "mean", "--training.batch_size", "32")
_LONG = (*_NARROW, "--training.batch_size", "16", "--training.max_length", "384")
_READING = (*_LONG, "--data.max_dev", "200", "--data.max_test", "500")
_OF_TEXTS = ("ce", "ce+prior", "dl", "dsc-official")
_OF_READING = ("ce", "ce+prior", "dl-set", "dsc-official")
_QUOREF = (*_LONG, "--data.dev", "dev.json", "--data.test", "test.json")
_OF_TAGS = ("ce", "ce+prior", "focal", "dl", "dsc-official")
_OF_DEV = "1,700 of the 2,418 questions of dev, of which 500 others are the test"
ROWS = (
    _published(
        ("acl4", "tweets", "BERT-Tagger"),
        DataSet(
            "tweets",
            "experiments/pos/tweets.py",
            "ritter_parts",
            ("--training.batch_size", "16"),
            {165: (537, 5)},
        ),
        OF_ELEMENTS,
        "537 of 787 tweets, of which 150 others are the test",
        rate=2e-4,
        arms=_OF_TAGS,
    ),
    _published(
        ("7", "sst2", "BERT"),
        DataSet(
            "sst2_sentences",
            "experiments/ablations/sst2.py",
            "sst2_sentences",
            _TEXTS,
            {433: (6920, 2)},
        ),
        OF_ELEMENTS,
        "all 6,920 sentences",
        rate=1e-4,
        arms=_OF_TEXTS,
        note="With 4,000 of GLUE's phrases and ten seeds `dsc-official` is behind "
        "`ce` (`docs/evidence/scores/thinned/50.npz`).",
    ),
    _published(
        ("7", "sst5", "BERT"),
        DataSet(
            "sst5",
            "experiments/ablations/sst5.py",
            "sst5",
            (*_TEXTS, *_NARROW),
            {534: (8544, 2)},
        ),
        OF_ELEMENTS,
        "all 8,544 sentences",
        rate=1e-4,
        arms=_OF_TEXTS,
    ),
    _published(
        ("6", "qqp", "BERT"),
        DataSet(
            "qqp",
            "experiments/paraphrase/qqp.py",
            "qqp_no_copies",
            (*_TEXTS, "--data.max_dev", "500", "--data.max_test", "2000"),
            {250: (4000, 2)},
        ),
        OF_ELEMENTS,
        "4,000 of 20,000 pairs, without copies between the splits; the encoder was "
        "probably trained on them",
        rate=1e-4,
        arms=_OF_TEXTS,
    ),
    _published(
        ("5", "squad1", "BERT"),
        DataSet(
            "squad1",
            "experiments/qa/squad1.py",
            "squad_v1.1",
            _READING,
            {250: (2000, 2)},
        ),
        OF_SETS,
        "2,000 of 87,599 questions",
        rate=2e-4,
        arms=_OF_READING,
        note="`ce` begins with probabilities of 0.5 and has hardly learnt after 250 "
        "updates; begun at the class frequencies it is ahead of both dice losses.",
    ),
    _published(
        ("5", "squad2", "BERT"),
        DataSet(
            "squad2",
            "experiments/qa/squad2.py",
            "squad_v2.0_mixed",
            _READING,
            {250: (2000, 2)},
        ),
        OF_SETS,
        "2,000 of 130,319 questions",
        rate=2e-4,
        arms=_OF_READING,
        note="After 250 updates `ce` answers no question with any seed, and the others "
        "few: no gain is stated.",
    ),
    _published(
        ("5", "quoref", "BERT"),
        DataSet(
            "quoref",
            "experiments/qa/quoref.py",
            "quoref_parts",
            _QUOREF,
            {201: (1700, 1)},
        ),
        OF_SETS,
        _OF_DEV,
        rate=2e-4,
        arms=_OF_READING,
        factor=10.0,
        note="After 201 updates `ce` has hardly learnt, and one of its runs failed: no "
        "gain is stated.",
    ),
    _published(
        ("8", "quoref", ""),
        DataSet(
            "quoref_alpha",
            "experiments/ablations/tversky_alpha_quoref.py",
            "quoref_parts",
            # On dev, seed 20, alpha 0.5: 18.11, gradients clipped at 1 collapse to 0
            (*_QUOREF, "--optimizer.clip_norm", "0.02"),
            {201: (1700, 1)},
        ),
        {f"tl@{alpha}": loss for alpha, loss in ALPHAS.items()},
        _OF_DEV,
        rate=2e-4,
        arms=ALPHAS.values(),
        prior_factor=1.0,
        note="Heads begin at the class frequencies, gradients are clipped at 0.02. No "
        "alpha is shown to differ from another.",
    ),
    _published(
        ("4", "msra", "BERT-MRC"),
        DataSet(
            "msra_reading",
            "experiments/ner/msra.py",
            "msra",
            (
                *_NARROW,
                *("--data.test", "test_same_preprocessing.txt"),
                *("--data.max_dev", "300", "--data.max_test", "1000"),
                *("--training.batch_size", "32", "--training.max_length", "128"),
                *("--task.match_width", "128"),
            ),
            {250: (1350, 2)},
        ),
        OF_SETS,
        "1,350 of 50,658 sentences",
        rate=2e-4,
        arms=_OF_READING,
        encoder=third.MULTILINGUAL,
        factor=10.0,  # so `ce+prior` has 38 on dev after an epoch, seed 20, `ce` 0
        note="`ce` finds nothing in 260 updates with any seed: no gain is stated.",
    ),
    _published(
        ("4", "msra", "BERT-Tagger"),
        DataSet(
            "msra_tagging",
            "docs/evidence/msra_tagging.py",
            "msra",
            (
                *_NARROW,
                *("--data.max_dev", "300", "--data.max_test", "1000"),
                *("--training.batch_size", "16", "--training.max_length", "128"),
            ),
            {338: (2700, 2)},
        ),
        OF_ELEMENTS,
        "2,700 of 50,658 sentences",
        rate=2e-4,
        arms=_OF_TEXTS,
        encoder=third.MULTILINGUAL,
        factor=10.0,  # on dev, seed 20: `ce` has 64.40, with the encoder's rate 10.19
    ),
    _published(
        ("3", "ud14", "BERT-Tagger"),
        DataSet(
            "ud14",
            "experiments/pos/ud14.py",
            "ud_chinese_1.4",
            (*_NARROW, "--data.max_dev", "200", "--training.batch_size", "16"),
            {250: (2000, 2)},
        ),
        OF_ELEMENTS,
        "2,000 of 3,997 sentences",
        rate=2e-4,
        arms=("ce", "ce+prior", "wce", "focal", "dl", "dsc-official"),
        encoder=third.MULTILINGUAL,
        note="With seeds 1 and 2 gradients of embeddings are added up in float32, with "
        "seed 0 they were rounded to bfloat16.",
    ),
    _published(
        ("cluener", "cluener", "BERT"),
        DataSet(
            "cluener_pointers",
            "experiments/ner/cluener.py",
            "cluener2020",
            ("--data.max_dev", "300", "--training.batch_size", "16"),
            {282: (1500, 3)},
        ),
        ARTICLE,
        "1,500 of 10,748 sentences",
        rate=2e-4,
        arms=ARTICLE.values(),
        encoder=third.MULTILINGUAL,
        note="All four are far from their end after 282 updates: the order is that of "
        "how soon a loss learns.",
    ),
)
"""In the order of the time that they take, by encoder."""
CELLS = tuple(row.cell for row in ROWS)


def is_finished(cell: Cell) -> bool:
    """Return whether all runs of a cell are archived."""
    (length,) = cell.data.samples
    runs = archive.read(cell.archive_of(length)).runs
    wanted = {(arm, seed) for arm in cell.arms for seed in cell.seeds}
    return wanted <= {(run.loss, run.seed) for run in runs}


def main(argv: Sequence[str]) -> None:
    """Write the data sets that the rows need and nobody has released so."""
    data, out = map(Path, argv)
    files = {
        **squad2(data / "squad_v2.0"),
        **quoref(data / "quoref"),
        **qqp(data / "qqp"),
        **ritter(data / "tweet_pos_ritter"),
    }
    for name, text in files.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text(text, encoding="utf-8")
        print(f"{out / name}: {len(text):,} characters")


def squad2(folder: Path) -> dict[str, str]:
    """Return train with the last articles of dev, and dev without them, by file.

    The articles of train at hand have hardly a question without an answer.
    """
    train, dev = (
        json.loads((folder / f"{name}.json").read_text("utf-8"))["data"]
        for name in ("train", "dev")
    )
    parts = {"train": [*train, *dev[16:]], "dev": dev[:16]}
    return {
        f"squad_v2.0_mixed/{name}.json": json.dumps({"version": "v2.0", "data": part})
        for name, part in parts.items()
    }


def quoref(folder: Path) -> dict[str, str]:
    """Return dev in three parts of whole articles, by file."""
    articles = json.loads((folder / "dev.json").read_text("utf-8"))["data"]
    random.Random(0).shuffle(articles)

    def questions(articles: Sequence[Any]) -> int:
        texts = (text for article in articles for text in article["paragraphs"])
        return sum(len(text["qas"]) for text in texts)

    parts = dealt([[article] for article in articles], questions, test=500, dev=200)
    return {
        f"quoref_parts/{name}.json": json.dumps({"version": "0.1", "data": part})
        for name, part in parts.items()
    }


def qqp(folder: Path) -> dict[str, str]:
    """Return the three splits of the pairs of QQP, by file.

    Pairs that share a question, at whatever distance, are in one split. Positives are
    left out at random until they are 37 of 100 pairs, as in all of QQP.
    """
    lines = [
        line
        for name in ("train", "dev")
        for line in (folder / f"{name}.tsv").read_text("utf-8").split("\n")
        if line
    ]
    groups = sorted(connected(lines).values(), key=lambda some: some[0])
    draw = random.Random(0)
    draw.shuffle(groups)
    splits = dealt(groups, len, test=4000, dev=1000)
    for name, some in splits.items():
        positives = [line for line in some if line.startswith("1")]
        negatives = len(some) - len(positives)
        kept = {*draw.sample(positives, min(len(positives), negatives * 37 // 63))}
        splits[name] = [x for x in some if not x.startswith("1") or x in kept]
    return {
        f"qqp_no_copies/{name}.tsv": "".join(f"{line}\n" for line in some)
        for name, some in splits.items()
    }


def ritter(folder: Path) -> dict[str, str]:
    """Return tweets with a tag for each word in three splits, equal ones together."""
    by_text: dict[tuple[str, ...], list[str]] = {}
    for tweet in (folder / "all.txt").read_text("utf-8").strip().split("\n\n"):
        words = tuple(line.split()[0] for line in tweet.split("\n"))
        by_text.setdefault(words, []).append(tweet)
    texts = sorted(by_text)
    random.Random(0).shuffle(texts)
    splits = dealt([by_text[text] for text in texts], len, test=150, dev=100)
    return {
        f"ritter_parts/{name}.txt": "".join(f"{tweet}\n\n" for tweet in some)
        for name, some in splits.items()
    }


def dealt(
    groups: Iterable[list[Any]], size: Callable[[list[Any]], int], **least: int
) -> dict[str, list[Any]]:
    """Return whole groups in splits of at least these sizes; train has the rest."""
    splits: dict[str, list[Any]] = {name: [] for name in (*least, "train")}
    for group in groups:
        full = [name for name in least if size(splits[name]) >= least[name]]
        splits[next(name for name in splits if name not in full)] += group
    return splits


def connected(lines: Sequence[str]) -> dict[int, list[str]]:
    r"""Return lines of a label, two questions and an id that share questions, together.

    >>> [*connected(["1\ta\tb\t0", "0\tc\td\t1", "0\tB\te\t2"]).values()]
    [['1\ta\tb\t0', '0\tB\te\t2'], ['0\tc\td\t1']]
    """
    above = [*range(len(lines))]

    def top(place: int) -> int:
        while above[place] != place:
            above[place] = place = above[above[place]]
        return place

    first: dict[str, int] = {}
    for place, line in enumerate(lines):
        for question in line.split("\t")[1:3]:
            other = first.setdefault(" ".join(question.lower().split()), place)
            above[top(place)] = top(other)
    groups: dict[int, list[str]] = {}
    for place, line in enumerate(lines):
        groups.setdefault(top(place), []).append(line)
    return groups


if __name__ == "__main__":
    main(sys.argv[1:])
