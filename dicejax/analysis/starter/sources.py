"""From the path of a user's data to the source that reads it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from etils import epath

from dicejax.data.readers import text
from dicejax.data.sources import (
    ConllFiles,
    ConlluFiles,
    FileSource,
    LabelFirstFiles,
    SquadFiles,
    TabSeparatedFiles,
    WordLabelFiles,
)
from dicejax.errors import InputError
from dicejax.tasks import (
    Classification,
    QuestionAnswering,
    Tagging,
    Task,
    WordTagging,
)

Kind = Literal["ner", "pos", "classification", "qa"]
KINDS: dict[Kind, type[Task]] = {
    "ner": Tagging,
    "pos": WordTagging,
    "classification": Classification,
    "qa": QuestionAnswering,
}
"""What can be begun, and the task of each."""

SPLITS = {
    "train": ("train", "training"),
    "dev": ("dev", "valid", "val", "development", "eval"),
    "test": ("test", "testing"),
}
HELD_OUT = 0.15
"""The share held out of a single file for dev, and again for test."""
LABEL_COLUMNS = ("label", "class", "category", "target", "sentiment", "quality")
TEXT_COLUMNS = ("text", "sentence", "review", "content", "tweet", "comment")
PAIR_COLUMNS = (
    ("sentence1", "sentence2"),
    ("question1", "question2"),
    ("text1", "text2"),
    ("premise", "hypothesis"),
    ("#1 string", "#2 string"),
)


def source_of(kind: Kind, data: str) -> FileSource:
    """Return the source for a file, or for a folder with a file for each split.

    Of a single file, dev and test are held out; so is what a folder lacks. Files are
    known by their names (train, dev or valid, test) and endings.

    Args:
      kind: what is to be learnt.
      data: the file or the folder.

    Raises:
      InputError: there is nothing of the kind.
    """
    path = epath.Path(data)
    if not path.exists():
        raise InputError(f"{data}: no such file or folder")
    if path.is_dir():
        names = sorted(one.name for one in path.iterdir() if one.is_file())
        found = {split: _named(names, words) for split, words in SPLITS.items()}
        if found["train"] is None:
            raise InputError(
                f"{data}: holds no train file (of {len(names)} files none has a name "
                "that begins with train); name the file itself with --data"
            )
        folder, train = path, found["train"]
    else:
        folder, train = path.parent, path.name
        found = {"train": train, "dev": None, "test": None}
    make, columns = _format(kind, folder / train)
    if columns and found["test"] and not _has_column(folder, found["test"], columns):
        found["test"] = None  # the labels of a competition's test file are kept back
    held_out = {"dev_share": HELD_OUT} if found["dev"] is None else {}
    if found["test"] is None:
        held_out["test_share"] = HELD_OUT
    return make(dir=str(folder), **found, **held_out, **columns)


def _named(names: Sequence[str], words: Sequence[str]) -> str | None:
    for word in words:
        for name in names:
            stem = name.lower().split(".")[0]
            if stem == word or stem.startswith((f"{word}-", f"{word}_")):
                return name.removesuffix(".gz")
    for word in words:
        for name in names:
            if word in name.lower().replace("-", "_").split(".")[0].split("_"):
                return name.removesuffix(".gz")
    return None


def _format(kind: Kind, path: epath.Path) -> tuple[type[FileSource], dict[str, str]]:
    """The source for a file's ending and first line, with the columns it is to read."""
    ending = path.name.lower().removesuffix(".gz").rpartition(".")[2]
    match kind:
        case "ner":
            return ConllFiles, {}
        case "pos":
            return (ConlluFiles if ending == "conllu" else WordLabelFiles), {}
        case "qa":
            return SquadFiles, {}
    if ending in ("tsv", "tab"):
        return TabSeparatedFiles, _columns(path)
    return LabelFirstFiles, {}


def _columns(path: epath.Path) -> dict[str, str]:
    """Which columns of a tab-separated file are texts, and which the class."""
    header = _header(path)
    by_lower = {name.lower(): name for name in header}
    label = next((by_lower[n] for n in LABEL_COLUMNS if n in by_lower), None)
    pair = next((p for p in PAIR_COLUMNS if all(n in by_lower for n in p)), None)
    alone = next((by_lower[n] for n in TEXT_COLUMNS if n in by_lower), None)
    if label is None or (pair is None and alone is None):
        raise InputError.at(
            path,
            1,
            f"the columns {', '.join(map(repr, header[:6]))} do not say which is the "
            "text and which the class",
            "name them 'text' and 'label', of pairs 'sentence1' and 'sentence2', in "
            "the first line",
        )
    if pair is not None:
        return {"first": by_lower[pair[0]], "second": by_lower[pair[1]], "label": label}
    return {"first": alone, "label": label}


def _has_column(folder: epath.Path, name: str, columns: dict[str, str]) -> bool:
    return columns["label"] in _header(folder / name)


def _header(path: epath.Path) -> list[str]:
    if not path.exists():
        path = path.with_name(path.name + ".gz")
    _, first = next(iter(text.lines(path)), (1, ""))
    return first.split("\t")
