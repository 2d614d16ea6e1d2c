r"""The scores that others report, as data to put beside ours.

Rows are named as `experiments/` names things: `dataset` is the experiment's name,
`loss` the name that `--losses` takes. Numbers are percent, as printed.

>>> best("conll03").loss, best("conll03")["f1"]
('dsc', 93.33)
>>> [(row.loss, row["f1"]) for row in rows(table="6", dataset="mrpc", model="XLNet")]
[('ce', 89.2), ('focal', 89.25), ('dice', 89.33), ('dsc', 89.78)]

In the tables below "-" is a dash of the paper and "?" a cell that the text at hand
lost; `Row.unreadable` names those. They are in Table 4: a precision that reads 02.90
(BERT-MRC on OntoNotes4), P and F1 of dice there, and cells that came out empty. The
text has no table on data sets, so `COUNTS` holds what its sentences give; its Table 2
holds formulas. English tagging and the QQP ablation are only in the later ACL edition,
known here through a quotation (`Source.read_from`) that ends before two cells.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Any

_TITLE = "Li, Sun et al., Dice Loss for Data-imbalanced NLP Tasks"
_QUOTED = "a text recognition of the PDF, quoted in a log in a public repository"


@dataclasses.dataclass(frozen=True)
class Source:
    """Where numbers come from.

    Args:
      citation: authors, title, edition.
      table: its number or name there.
      read_from: how it was read, where that was not the publication's own text.
      notes: what holds for all its rows.
    """

    citation: str
    table: str
    read_from: str = ""
    notes: str = ""


@dataclasses.dataclass(frozen=True)
class Score:
    """One cell: a metric, its percent, and the printed gain over cross-entropy."""

    metric: str
    percent: float
    gain: float | None = None


@dataclasses.dataclass(frozen=True)
class Row:
    """One line of a table, for one data set.

    Args:
      table: a key of `SOURCES`.
      dataset: the experiment's name.
      model: the network without its loss; empty where the table names none.
      loss: as `--losses` names it, or "lsr", which is
        `CrossEntropy(label_smoothing=0.1)`; None for systems that others trained.
      scores: the cells that hold a number.
      unreadable: the metrics whose cells are damaged in the text at hand.
      variant: how the training data was changed.
      alpha: of the Tversky index.
      notes: where the row disagrees with itself or with another.
    """

    table: str
    dataset: str
    model: str
    loss: str | None
    scores: tuple[Score, ...]
    unreadable: tuple[str, ...] = ()
    variant: str = ""
    alpha: float | None = None
    notes: str = ""

    @property
    def source(self) -> Source:
        """Where the row is printed."""
        return SOURCES[self.table]

    def __getitem__(self, metric: str) -> float | None:
        return next((s.percent for s in self.scores if s.metric == metric), None)


@dataclasses.dataclass(frozen=True)
class Imbalance:
    """Negative and positive examples of a data set, rounded as in Table 1."""

    dataset: str
    negatives: int
    positives: int
    ratio: float
    notes: str = ""


@dataclasses.dataclass(frozen=True)
class Count:
    """How many of something a data set has, by the sentences of a source."""

    table: str
    dataset: str
    of: str
    number: float
    split: str = ""
    notes: str = ""


def rows(**fields: Any) -> tuple[Row, ...]:
    """Return the rows whose fields have the given values.

    >>> [row["f1"] for row in rows(dataset="ctb5", loss="dsc")]
    [97.92]

    Raises:
      TypeError: a row has no such field.
    """
    known = {field.name for field in dataclasses.fields(Row)}
    if unknown := fields.keys() - known:
        raise TypeError(f"rows have no {sorted(unknown)}; they have {sorted(known)}")
    return tuple(
        row
        for row in ROWS
        if all(getattr(row, name) == value for name, value in fields.items())
    )


def best(dataset: str, metric: str = "f1", **fields: Any) -> Row:
    """Return the row with the highest score on a data set.

    Its authors' best on OntoNotes4 is not their own loss:

    >>> best("ontonotes4").loss, best("ontonotes4", table="4").loss
    ('tversky', 'dsc')

    Raises:
      LookupError: no row has that metric.
    """
    found = [r for r in rows(dataset=dataset, **fields) if r[metric] is not None]
    if not found:
        raise LookupError(f"no row of {dataset} has {metric} with {fields}")
    return max(found, key=lambda row: row[metric])


def baseline(row: Row) -> Row | None:
    """Return the cross-entropy row that a row's gains refer to, if there is one.

    >>> baseline(best("quoref", table="5"))["f1"]
    71.49
    """
    same = {"table": row.table, "dataset": row.dataset, "variant": row.variant}
    return next(iter(rows(**same, model=row.model, loss="ce")), None)


def _paper(table: str, notes: str = "") -> Source:
    return Source(f"{_TITLE}, arXiv:1911.02855 (2019)", table, notes=notes)


def _acl(table: str, notes: str = "") -> Source:
    return Source(f"{_TITLE}, ACL 2020", table, _QUOTED, notes)


SOURCES = {
    "text": _paper("none: sections 4.1 to 4.4"),
    "1": _paper("1"),
    "3": _paper(
        "3",
        "span-level micro P, R, F1; BERT-Tagger is printed as BERT but for its ce row",
    ),
    "4": _paper(
        "4",
        "span-level micro P, R, F1; BERT-MRC is BERT-large with whole-word masking,"
        " uncased, for English and BERT-base for Chinese; the released scripts take"
        " cased BERT-large for English and no span head",
    ),
    "5": _paper("5", "on the development sets, on which settings were also tuned"),
    "6": _paper("6"),
    "7": _paper("7", "BERT-large"),
    "8": _paper(
        "8",
        "F1; names no network, though at alpha 0.5 both columns equal the dsc scores of"
        " BERT-MRC (Table 4) and BERT (Table 5); the ACL edition adds beta = 1 - alpha",
    ),
    "acl4": _acl(
        "4", "no printed F1 is the harmonic mean of its P and R; all exceed it"
    ),
    "acl8": _acl(
        "8",
        "F1 of BERT on QQP; in this edition dsc on the original data has 92.11, in the"
        " earlier one (Table 6) 91.57; the printed sizes give +negative 96,280 positive"
        " pairs, fewer than the 134,582 of -negative, though neither drops any",
    ),
    "cluener": Source(
        "qingkongzhiqian, NER_loss_compare, and the article on it",
        "the README's picture of results",
        "the picture, read off by eye; the article's text has no numbers",
        "development set, entity-level micro F1, one run each; BERT with two pointers",
    ),
}

IMBALANCE = (
    Imbalance("conll03", 170_000, 34_000, 4.98),
    Imbalance("ontonotes5", 1_960_000, 239_000, 8.18),
    Imbalance(
        "squad1",
        10_300_000,
        175_000,
        55.9,
        notes="the counts give 58.9 (58.4 to 59.3 as rounded), so one is a misprint",
    ),
    Imbalance("squad2", 15_400_000, 188_000, 82.0),
    Imbalance("quoref", 6_520_000, 38_600, 169.0),
)

NOTES = {
    ("3", "ud14", "Joint-POS(Ens)", "-"): "P and R give F1 89.76 or 89.77",
    ("3", "ud14", "BERT-Tagger", "focal"): "P and R give F1 96.09",
    ("4", "conll03", "BERT-MRC", "focal"): "the scores differ by 0.07, not 0.06",
    ("4", "conll03", "BERT-MRC", "dice"): "the scores differ by 0.13, not 0.12",
    ("4", "ontonotes4", "Glyce-BERT", "-"): "P and R give F1 81.63",
    ("4", "ontonotes4", "BERT-MRC", "dsc"): "F1 and its gain are in the introduction",
    ("6", "qqp", "BERT", "dsc"): "below dice and focal; 92.11 in the ACL edition",
}

TABLES = (
    # SOURCES key | data sets (with /variant) | metrics; then model, loss and cells. A
    # cell is a percent with or without its gain; "-" and "?" as said above.
    """3 | ctb5 ctb6 ud14 | precision recall f1
Joint-POS(Sig)  -  93.68 94.47 94.07      -     -     90.81      89.28 89.54 89.41
Joint-POS(Ens)  -  93.95 94.81 94.38      -     -     -          89.67 89.86 89.75
Lattice-LSTM  -    94.77 95.51 95.14      92.00 90.86 91.43      90.47 89.70 90.09
BERT-Tagger  ce    95.86 96.26 96.06      94.91 94.63 94.77      95.42 94.17 94.79
BERT-Tagger  wce   96.45 96.41 96.43+0.37 95.34 96.22 95.78+1.01 96.09 97.08 96.58+1.79
BERT-Tagger  focal 96.11 97.42 96.76+0.70 95.80 95.08 95.44+0.67 96.33 95.85 96.81+2.02
BERT-Tagger  dice  96.77 98.87 97.81+1.75 94.08 96.12 95.09+0.32 96.10 97.79 96.94+2.15
BERT-Tagger  dsc   97.10 98.75 97.92+1.86 96.29 96.85 96.57+1.80 96.24 97.73 96.98+2.19
""",
    """acl4 | wsj tweets | precision recall f1
Meta-BiLSTM      -      -     -     98.23      -     -     -
FastText+CNN+CRF -      -     -     -          -     -     91.78
BERT-Tagger      ce     99.21 98.36 98.86      92.33 91.98 92.34
BERT-Tagger      focal  98.36 98.97 98.88+0.02 91.24 93.22 92.47+0.13
BERT-Tagger      dice   99.34 98.22 98.91+0.05 91.44 92.88 92.52+0.18
BERT-Tagger      dsc    99.41 98.93 99.38+0.52 92.87 ?     ?
""",
    """4 | conll03 ontonotes5 | precision recall f1
ELMo         -      -     -     92.22      -     -     -
CVT          -      -     -     92.6       -     -     88.8
BERT-Tagger  ce     -     -     92.8       ?     88.35 89.16
BERT-MRC     ce     92.33 ?     93.04      ?     89.95 91.11
BERT-MRC     wce    ?     ?     93.05+0.01 ?     ?     91.43+0.32
BERT-MRC     focal  ?     ?     93.11+0.06 ?     ?     91.22+0.11
BERT-MRC     dice   ?     ?     93.17+0.12 ?     ?     91.88+0.77
BERT-MRC     dsc    93.41 93.25 93.33+0.29 91.59 92.56 92.07+0.96
""",
    """4 | msra ontonotes4 | precision recall f1
Lattice-LSTM -      ?     ?     93.18      ?     71.56 73.88
BERT-Tagger  ce     ?     94.62 94.80      ?     ?     79.16
Glyce-BERT   -      ?     95.51 95.54      81.87 81.40 80.62
BERT-MRC     ce     ?     95.12 95.75      ?     81.25 82.11
BERT-MRC     wce    ?     ?     95.43-0.32 ?     83.87 83.66+1.55
BERT-MRC     focal  ?     ?     95.67-0.08 83.63 82.97 83.30+1.19
BERT-MRC     dice   ?     ?     96.44+0.69 ?     84.05 ?
BERT-MRC     dsc    ?     96.77 96.72+0.97 ?     84.72 84.47+2.36
""",
    """5 | squad1 squad2 quoref | em f1
QANet  -      73.6       82.7       -          -          34.41      38.26
BERT   ce     84.1       90.9       78.7       81.9       58.44      64.95
BERT   focal  84.67+0.57 91.25+0.35 78.92+0.22 82.20+0.30 60.78+2.34 66.19+1.24
BERT   dice   84.83+0.73 91.86+0.96 78.99+0.29 82.88+0.98 62.03+3.59 66.88+1.93
BERT   dsc    85.34+1.24 91.97+1.07 79.02+0.32 82.95+1.05 62.44+4.00 67.52+2.57
XLNet  ce     88.95      94.52      86.12      88.79      64.52      71.49
XLNet  focal  88.90-0.05 94.55+0.03 87.04+0.92 89.32+0.53 65.19+0.67 72.34+0.85
XLNet  dice   89.13+0.18 95.36+0.84 87.22+1.10 89.44+0.65 65.77+1.25 72.85+1.36
XLNet  dsc    89.79+0.84 95.77+1.25 87.65+1.53 89.51+0.72 65.98+1.46 72.90+1.41
""",
    """6 | mrpc qqp | f1
BERT   ce     88.0       91.3
BERT   focal  88.43+0.43 91.86+0.56
BERT   dice   88.71+0.71 91.92+0.62
BERT   dsc    88.92+0.92 91.57+0.27
XLNet  ce     89.2       91.8
XLNet  focal  89.25+0.05 91.19-0.61
XLNet  dice   89.33+0.13 91.37-0.43
XLNet  dsc    89.78+0.58 92.53+0.73
""",
    """acl8 | qqp_imbalance/original qqp_imbalance/+positive qqp_imbalance/+negative \
qqp_imbalance/-negative qqp_imbalance/+both | f1
BERT   ce     91.3       92.27      90.08      89.73      93.14
BERT   focal  91.86+0.56 92.64+0.37 90.61+0.53 90.79+1.06 93.45+0.31
BERT   dice   91.92+0.62 92.87+0.60 90.22+0.14 90.49+0.76 93.52+0.38
BERT   dsc    92.11+0.81 92.92+0.65 90.78+0.70 90.80+1.07 93.63+0.49
""",
    """7 | sst2 sst5 | accuracy
BERT  ce    94.9  55.57
BERT  dice  94.37 54.63
BERT  dsc   94.84 55.19
""",
    """8 | ontonotes4 quoref | f1
- tversky@0.1 80.13 63.23
- tversky@0.2 81.17 63.45
- tversky@0.3 84.22 65.88
- tversky@0.4 84.52 68.44
- tversky@0.5 84.47 67.52
- tversky@0.6 84.67 66.35
- tversky@0.7 81.81 65.09
- tversky@0.8 80.97 64.13
- tversky@0.9 80.21 64.84
""",
    """cluener | cluener | address book company game government movie name \
organization position scene f1
BERT ce    65.68 81.19 82.40 83.06 81.54 82.00 87.90 81.82 79.91 70.42 79.93
BERT lsr   66.94 82.12 81.98 82.69 82.72 85.71 88.14 81.90 80.56 73.17 80.66
BERT focal 65.07 81.88 81.90 84.02 83.76 81.63 87.97 81.16 81.50 72.06 80.43
BERT ghm   63.71 81.36 81.39 83.75 81.82 80.41 88.39 80.60 82.27 71.63 79.95
""",
)


def _rows(text: str) -> Iterator[Row]:
    header, *lines = text.splitlines()
    table, datasets, metrics = (part.split() for part in header.split("|"))
    for line in lines:
        model, loss, *cells = line.split()
        loss, _, alpha = loss.partition("@")
        if len(cells) != len(datasets) * len(metrics):
            raise ValueError(f"table {table[0]} has {len(cells)} cells in {line!r}")
        for i, place in enumerate(datasets):
            read = dict(zip(metrics, cells[i * len(metrics) :], strict=False))
            dataset, _, variant = place.partition("/")
            row = Row(
                table[0],
                dataset,
                model="" if model == "-" else model,
                loss=None if loss == "-" else loss,
                scores=tuple(_score(m, c) for m, c in read.items() if c not in "-?"),
                unreadable=tuple(m for m, c in read.items() if c == "?"),
                variant=variant,
                alpha=float(alpha) if alpha else None,
                notes=NOTES.get((table[0], dataset, model, loss), ""),
            )
            if row.scores:
                yield row


def _score(metric: str, cell: str) -> Score:
    percent, gain = re.fullmatch(r"([0-9.]+)([+-][0-9.]+)?", cell).groups()
    return Score(metric, float(percent), float(gain) if gain else None)


ROWS = tuple(row for text in TABLES for row in _rows(text))

_CLUENER = """
address    2829 364
book       1131 152
company    2897 366
game       2325 287
government 1797 244
movie      1109 150
name       3661 451
organization 3075 344
position   3052 425
scene      1462 199
sentences  10748 1343
"""

COUNTS = (
    Count("text", "ctb5", "words", 507_222),
    Count("text", "ctb5", "characters", 824_983),
    Count("text", "ctb5", "sentences", 18_782),
    Count("text", "ctb6", "words", 781_351),
    Count("text", "ctb6", "characters", 1_285_149),
    Count("text", "ctb6", "sentences", 28_295),
    Count("text", "conll03", "entity types", 4),
    Count("text", "ontonotes5", "entity types", 18),
    Count("text", "msra", "entity types", 3),
    Count("text", "ontonotes4", "entity types", 18, notes="released queries: 4 types"),
    Count("text", "squad1", "questions", 100_000),
    Count("text", "quoref", "questions", 24_000),
    Count("text", "quoref", "paragraphs", 4_700),
    Count("text", "mrpc", "percent positive", 68),
    Count("text", "qqp", "percent positive", 37),
    Count("acl8", "qqp_imbalance", "pairs", 458_477, "+positive"),
    Count("acl8", "qqp_imbalance", "percent positive", 50, "+positive"),
    Count("acl8", "qqp_imbalance", "pairs", 458_477, "+negative"),
    Count("acl8", "qqp_imbalance", "percent positive", 21, "+negative"),
    Count("acl8", "qqp_imbalance", "pairs", 269_165, "-negative"),
    Count("acl8", "qqp_imbalance", "percent positive", 50, "-negative"),
    *(
        Count("cluener", "cluener", of, int(number), split)
        for of, *numbers in map(str.split, _CLUENER.strip().splitlines())
        for split, number in zip(("train", "dev"), numbers, strict=True)
    ),
)
