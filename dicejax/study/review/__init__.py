"""Which labels to check first: gold that models contradict which did not train on it.

review.html    the first examples, and those of each class, with what the models say
to_mark.csv    the list for a person's marks, `--marked`
corrected/     the files of the data with the proposals, or with what was marked wrong
review.json    the order of all examples, for programs
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from etils import epath

from dicejax.errors import InputError
from dicejax.formats import FileSource, separated
from dicejax.io import files
from dicejax.metrics.scores import heading
from dicejax.study.report.document import page
from dicejax.study.review import statement as marking
from dicejax.study.review.corrections import FOLDER as CORRECTED
from dicejax.study.review.corrections import corrected
from dicejax.study.review.held_out import (
    HeldOut,
    finished_jobs,
    judge,
    offline,
    split_counts,
    train_folds,
)
from dicejax.study.review.listing import OF_CLASS, cells_of, document
from dicejax.study.review.ranking import Doubt, copies, doubts
from dicejax.study.sentences import paragraphs, sentences
from dicejax.training.encoded import SPLITS
from dicejax.training.progress import TrainingProgress

PAGE, LIST, RECORD = "review.html", "to_mark.csv", "review.json"


def review(
    paths: Sequence[str],
    out: str,
    *,
    splits: Sequence[str] = (),
    folds: int | None = None,
    first: int = 50,
    marked: str | None = None,
    progress: TrainingProgress,
    warn: Callable[[str], None],
) -> list[str]:
    """Rank gold labels by how consistently held-out models contradict them.

    Args:
      paths: folders of runs, at any depth, all of one experiment.
      out: folder to write to.
      splits: splits whose labels are ranked; by default dev and test, and train where
        runs were trained on several samples of it or without parts.
      folds: train this many models more, each without a part of train.
      first: how many examples are to be marked: half are the first, half are drawn.
      marked: list of an earlier review with the marks of a person.
      progress: where training is displayed.
      warn: called with notes.

    Returns:
      Lines for the terminal: what to check, or what the marks say.

    Raises:
      InputError: runs, data, marks or the folder cannot be used.
    """
    if first < 2:
        raise InputError(f"--first is {first}; want at least 2")
    folder = epath.Path(out)
    if marked is None:
        _require_unmarked(folder / LIST)
    runs = finished_jobs(paths, warn)
    jobs = [*runs, *(train_folds(runs, folds, out, progress) if folds else ())]
    samples = {_drawn(job.experiment.data) for job in jobs}
    chosen = tuple(splits) or ("dev", "test", *(["train"] if len(samples) > 1 else []))
    held_out = judge(jobs, chosen, warn)
    every = doubts(held_out)
    contradicted = [doubt for doubt in every if doubt.kinds]
    accepted, contents = contradicted[:first], dict[str, str]()
    texts, lines, to_do = sentences("review"), list[str](), list[str]()
    certain, drawn = marking.to_check(len(every), first)
    if marked is None:
        chances = dict.fromkeys(certain, 1.0)
        chances |= dict.fromkeys(drawn, len(drawn) / max(len(every) - len(certain), 1))
        rows = [
            [every[n].rank, chance, *cells_of(every[n]).values()]
            for n, chance in chances.items()
        ]
        contents[LIST] = "\n".join(marking.lines_to_mark(rows)) + "\n"
        to_do.append(texts.mark(file=LIST, certain=len(certain), drawn=len(drawn)))
    else:
        checked = marking.read_marks(marked, every)
        wrong = {doubt.key for doubt in checked if doubt.mark == "wrong"}
        accepted = [doubt for doubt in contradicted if doubt.key in wrong]
        lines = _statement(held_out, accepted, checked, len(runs))
    source = offline(runs[0]).data
    proposed = {doubt.example: doubt.proposed for doubt in accepted}
    corrections: dict[str, str] = {}
    if not isinstance(source, FileSource):
        to_do.append(texts.no_files())
    elif proposed:
        corrections = corrected(source, held_out.task, held_out.labels, proposed)
        names = list(corrections)
        to_do.append(texts.accept(files=names, is_marked=marked is not None))
    by_class: dict[str, list[Doubt]] = {}
    for doubt in contradicted:
        by_class.setdefault(doubt.label, []).append(doubt)
    corpus = source.load()
    content = document(
        runs[0].experiment.name,
        held_out,
        contradicted[:first],
        {label: some[:OF_CLASS] for label, some in sorted(by_class.items())},
        copies({split: getattr(corpus, split) for split in SPLITS}),
        statement=lines,
        to_do=to_do,
    )
    contents |= corrections | {PAGE: page(content)}
    contents[RECORD] = json.dumps(_record(held_out, every, lines), indent=1) + "\n"
    files.write_together(folder, contents)
    _remove_others(folder, corrections)
    return [*lines, content["verdict"].split("\n")[-1], f"page in {folder / PAGE}"]


def _drawn(data: Any) -> tuple[Any, Any]:
    return getattr(data, "train_sample", None), getattr(data, "leave_out", None)


def _require_unmarked(path: epath.Path) -> None:
    """Raise rather than write over what a person has marked."""
    if not path.exists():
        return
    rows = separated.rows(path)
    _, header = separated.header(rows)
    place = header.index("mark") if "mark" in header else -1
    if any(place < len(fields) and fields[place].strip() for _, fields in rows):
        remedy = f"give it to --marked {path}, or name another --out"
        raise InputError.at(path, None, "has marks, which would be lost", remedy)


def _statement(
    held_out: HeldOut, accepted: Sequence[Doubt], checked: Sequence[Doubt], runs: int
) -> list[str]:
    """Return what marks say: the share of errors, and how far scores on test move."""
    splits, moved = list(split_counts(held_out.splits)), None
    mended = {x.number: x.proposed for x in accepted if x.key[0] == "test"}
    if "test" in splits:
        before, after = marking.mended_scores(held_out, mended, runs)
        moved = after - before
    size, certain = len(held_out.examples), sum(x.chance == 1 for x in checked)
    of_all, of_rest = marking.wrong_shares(checked, size)
    text = sentences("review").statement(
        of_all=of_all,
        of_rest=of_rest if certain < size else None,
        first=certain,
        splits=splits,
        metric=heading(held_out.task.primary_metric),
        moved=moved,
        mended=len(mended),
        wrong=sum(x.key[0] == "test" and x.mark != "right" for x in checked),
        runs=runs,
    )
    return paragraphs(text)


def _remove_others(folder: epath.Path, corrections: Mapping[str, str]) -> None:
    """Remove what an earlier review corrected, and this one does not."""
    earlier = folder / CORRECTED
    for path in files.entries(earlier) if earlier.exists() else ():
        if f"{CORRECTED}/{path.name}" not in corrections:
            path.unlink()


def _record(
    held_out: HeldOut, every: Sequence[Doubt], lines: Sequence[str]
) -> dict[str, Any]:
    """Return the order of all examples, as JSON has it."""
    examples = [
        {
            "rank": doubt.rank,
            "split": doubt.key[0],
            "number": doubt.key[1],
            "line": doubt.example.line,
            "class": doubt.label,
            "kinds": list(doubt.kinds),
            "contradicting": doubt.contradicting,
            "judges": doubt.judges,
        }
        for doubt in every
    ]
    models = list(held_out.models)
    return {"statement": list(lines), "models": models, "examples": examples}
