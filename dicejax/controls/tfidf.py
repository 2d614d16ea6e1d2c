"""Logistic regression on counts of words and characters, or on words and neighbours."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Literal, Self, get_args

import numpy as np
import regex
import scipy.sparse
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import normalize

from dicejax.controls.linear import Linear, fit_logistic
from dicejax.controls.model import Arrays, ControlModel, Settings, targets_of
from dicejax.tasks import Task
from dicejax.tasks.tagging import TokenTask

Form = Literal["words", "characters", "neighbours"]
STRENGTHS = (1.0, 10.0, 100.0)
MOST_FEATURES = 200_000
RARE = 2000
"""Of so many training texts or words, features that occur once are left out."""
_RUNS = regex.compile(r"(.)\1+")


def _vectorizer(form: Form, size: int = 0, **options: Any) -> TfidfVectorizer:
    if "vocabulary" not in options:
        options |= {"max_features": MOST_FEATURES, "min_df": 2 if size >= RARE else 1}
    options |= {"dtype": np.float32, "sublinear_tf": form != "neighbours"}
    match form:
        case "words":
            options |= {"ngram_range": (1, 2), "token_pattern": r"(?u)\w+|[^\w\s]"}
        case "characters":
            options |= {"ngram_range": (2, 5), "analyzer": "char_wb"}
        case "neighbours":
            plain = {"use_idf": False, "norm": None, "binary": True, "lowercase": False}
            options |= plain | {"analyzer": list}
    return TfidfVectorizer(**options)


class TfIdf(ControlModel):
    """Logistic regression on TF-IDF of a text, or on a word and those around it.

    Texts are counts of words and pairs of words, or of 2 to 5 characters within words,
    weighted by TF-IDF; a pair of texts has both, what both have, and their cosine.
    Words are described by themselves, their neighbours, the letters that they begin and
    end with and their shape.
    """

    name = "tfidf"

    def __init__(self, task: Task, form: Form, counts: TfidfVectorizer, linear: Linear):
        self._task, self.form = task, form
        self._counts, self._linear = counts, linear

    @classmethod
    def fits(
        cls,
        task: Task,
        examples: Sequence[Any],
        labels: Sequence[str],
    ) -> Iterator[tuple[dict[str, Any], Self]]:
        """Yield a model for each form, penalty and weighting of classes, as settings.

        Raises:
          ValueError: no text has a word.
        """
        of_words = isinstance(task, TokenTask)
        forms: Sequence[Form] = ("neighbours",) if of_words else ("words", "characters")
        golds = targets_of(task, examples, labels)
        targets = np.concatenate(golds) if of_words else np.stack(golds)
        sizes = [len(gold) if of_words else 1 for gold in golds]
        weights = np.repeat([x.weight for x in examples], sizes)
        has_label = targets >= 0 if targets.ndim == 1 else np.ones(len(targets), bool)
        for form in forms:
            counts = _vectorizer(form, len(targets))
            counts.fit(itertools.chain.from_iterable(map(_documents, examples)))
            features = _features(counts, examples)[has_label]
            for balanced in (False, True):
                for strength, linear in fit_logistic(
                    features,
                    targets[has_label],
                    strengths=STRENGTHS,
                    balanced=balanced,
                    classes=len(labels),
                    weights=None if (weights == 1).all() else weights[has_label],
                ):
                    settings = {"form": form, "C": strength, "balanced": balanced}
                    yield settings, cls(task, form, counts, linear)

    def logits(self, examples: Sequence[Any]) -> list[np.ndarray]:
        """Return the logits of the regression."""
        if not examples:
            return []
        rows = self._linear(_features(self._counts, examples)).astype(np.float32)
        if not isinstance(self._task, TokenTask):
            return list(rows)
        ends = np.cumsum([len(example.words) for example in examples])
        return np.split(rows, ends[:-1])

    def state(self) -> tuple[Settings, Arrays]:
        """Return form and vocabulary, and the arrays of counts and regression."""
        numbers = self._counts.vocabulary_
        vocabulary = sorted(numbers, key=numbers.__getitem__)
        settings = {"name": self.name, "form": self.form, "vocabulary": vocabulary}
        arrays = {"kernel": self._linear.kernel, "bias": self._linear.bias}
        if self._counts.use_idf:
            arrays["idf"] = np.asarray(self._counts.idf_)
        return settings, arrays

    @classmethod
    def from_state(cls, settings: Settings, arrays: Arrays, task: Task) -> Self:
        """Return the model of a `state`."""
        form, vocabulary = settings["form"], settings["vocabulary"]
        if form not in get_args(Form):
            raise ValueError(f"form is {form!r}")
        numbers = {term: number for number, term in enumerate(vocabulary)}
        counts = _vectorizer(form, vocabulary=numbers)
        counts.fit(
            [vocabulary] if form == "neighbours" else vocabulary
        )  # which makes its parts, of which JSON has the content
        if counts.use_idf:
            counts.idf_ = arrays["idf"]
        return cls(task, form, counts, Linear(arrays["kernel"], arrays["bias"]))


def _documents(example: Any) -> list[Any]:
    """Return the texts of an example, or what describes each of its words."""
    if hasattr(example, "words"):
        return described(example.words)
    return [text for text in (example.first, example.second) if text is not None]


def _features(counts: TfidfVectorizer, examples: Sequence[Any]) -> Any:
    documents = [_documents(example) for example in examples]
    rows = counts.transform(itertools.chain.from_iterable(documents))
    if hasattr(examples[0], "words") or len(documents[0]) == 1:
        return rows
    pair = rows[::2], rows[1::2]
    first, second = (scipy.sparse.csr_matrix(normalize(part)) for part in pair)
    cosine = scipy.sparse.csr_matrix(first.multiply(second).sum(axis=1))
    columns = [*pair, pair[0].minimum(pair[1]), cosine]
    return scipy.sparse.hstack(columns, format="csr", dtype=np.float32)


def described(words: Sequence[str]) -> list[list[str]]:
    """Return what describes each word: itself, its form, and its neighbours.

    >>> print(*described(["In", "Rome"])[1])
    0=rome w=Rome <R <Ro <Rom e> me> ome> 0~Xx -1=in -1~Xx 1 -2 2
    """
    lower = [word.lower() for word in words]
    shapes = [_shape(word) for word in words]
    rows = []
    for place, word in enumerate(words):
        row = [f"0={lower[place]}", f"w={word}"]
        row += [f"<{word[:n]}" for n in (1, 2, 3) if n <= len(word)]
        row += [f"{word[-n:]}>" for n in (1, 2, 3) if n <= len(word)]
        row.append(f"0~{shapes[place]}")
        for step in (-1, 1, -2, 2):
            other = place + step
            if not 0 <= other < len(words):
                row.append(str(step))  # beyond the ends
                continue
            row.append(f"{step}={lower[other]}")
            if abs(step) == 1:
                row.append(f"{step}~{shapes[other]}")
        rows.append(row)
    return rows


def _shape(word: str) -> str:
    """Return letters and digits as X, x and 0, of equal ones in a row one.

    >>> _shape("McDonald's-2020")
    "XxXx'x-0"
    """
    signs = "".join(
        "X" if c.isupper() else "x" if c.isalpha() else "0" if c.isdigit() else c
        for c in word
    )
    return _RUNS.sub(r"\1", signs)
