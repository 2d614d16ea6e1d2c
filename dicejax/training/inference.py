"""Uses of a finished run: evaluation, prediction, export to PyTorch."""

from __future__ import annotations

import dataclasses
import functools
import html
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from dicejax.errors import InputError, Truncation
from dicejax.formats import texts as text_files
from dicejax.formats.text import Text
from dicejax.io import json_text
from dicejax.mesh import MeshShape
from dicejax.metrics.bounds import Observation
from dicejax.metrics.calibration import Calibration
from dicejax.metrics.guarantees import GuaranteedThreshold, guarantee_of
from dicejax.metrics.scores import Scores
from dicejax.tasks import (
    Item,
    Prediction,
    QuestionAnswering,
    calibrated,
    scoring,
    viterbi,
)
from dicejax.tasks.compact import compact
from dicejax.tasks.judged import observe
from dicejax.tasks.remarks import Fit, cut_inputs
from dicejax.tasks.task import count_cuts
from dicejax.tasks.viterbi import Decoding
from dicejax.tasks.windows import Cuts
from dicejax.training import new_texts
from dicejax.training.beside_gold import HardestFirst
from dicejax.training.checkpoint import Which
from dicejax.training.encoded import load_corpus, noun_of
from dicejax.training.identity import Identity, changed
from dicejax.training.outcome import nothing_learnt
from dicejax.training.predict import Shift, decode_examples
from dicejax.training.restored import restore
from dicejax.training.run_folder import RESULT, Run
from dicejax.training.train import Result

Folder = str | os.PathLike[str]


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """The scores of a split.

    Attributes:
      step: update at which the checkpoint was saved.
      scores: scores with the task's default threshold, if it has one.
      threshold: threshold chosen on dev when the run was trained, one or by label.
      tuned: scores with that threshold.
      examples: gold and prediction of each example, by the tuned threshold where there
        is one, the hardest first (`HardestFirst`); empty unless requested.
      cut: warnings of inputs that are cut off.
      metric: name of the primary metric.
      nothing_learnt: how predictions show that nothing was learnt, or of test those of
        training; None if they do not.
      guarantee: the constraint that the threshold was chosen to keep on new data.
      observed: the bounded measure on test, by label; empty of other splits, and
        where test is dev.
      calibration: scores of the probabilities before and after the temperature that
        was fitted on dev; None where there is none.
    """

    step: int
    scores: Scores
    threshold: float | Mapping[str, float] | None = None
    tuned: Scores | None = None
    examples: Sequence[dict[str, Any]] = ()
    cut: tuple[str, ...] = ()
    metric: str = "f1"
    nothing_learnt: str | None = None
    guarantee: GuaranteedThreshold | None = None
    observed: Mapping[str, Observation] = dataclasses.field(default_factory=dict)
    calibration: Calibration | None = None

    def __repr__(self) -> str:
        text = f"step {self.step}: {self.scores}"
        if self.tuned is not None:
            text += f"; with the tuned threshold: {self.tuned}"
        if self.guarantee is not None and self.observed:
            text += f"; {self.guarantee.compare(self.observed)}"
        return f"Evaluation({text})"

    def _repr_html_(self) -> str:
        scores = self.scores if self.tuned is None else self.tuned
        return f"<p>{html.escape(repr(self))}</p>{scores._repr_html_()}"


def evaluate(
    run: Folder | Result,
    split: str = "test",
    *,
    checkpoint: Which = "best",
    data: str | None = None,
    warn: Callable[[str], None] = warnings.warn,
    by_example: bool = False,
    decoding: Decoding | None = None,
    begin: Callable[[int], None] = lambda count: None,
    decoded: Callable[[], None] = lambda: None,
) -> Evaluation:
    """Score a finished run on one of its splits.

    Examples are encoded and predicted some at a time, so that beside the split as it
    was read memory holds what scores need of each prediction.

    Args:
      run: folder of the run, or the result of `train`.
      split: "train", "dev" or "test".
      checkpoint: "best" by the dev score, or "last".
      data: data folder, if it has moved since training.
      warn: called with remarks, such as on types without training examples.
      by_example: also return gold and prediction of each example.
      decoding: that of a `Tagging`, by default the run's.
      begin: called with the number of examples.
      decoded: called after each of them.

    Raises:
      InputError: the run or its data cannot be used.
    """
    opened = Run.open(_folder(run))
    experiment = opened.offline_experiment(data=data)
    corpus = load_corpus(experiment, warn)
    examples: Sequence[Any] = getattr(corpus, split)
    is_new = split == "test" and corpus.test != corpus.dev  # which chose the threshold
    earlier = opened.identity()
    changes = {}
    if earlier is not None:
        now = Identity({split: corpus.digests[split]})
        changes = now.changes(earlier, noun_of(experiment))
    if changes:
        warn(
            f"{changed(changes, 'the run')}; the scores in its {RESULT} are of the "
            "data before, these are of the data of now"
        )
    del corpus  # the other splits
    task, labels = viterbi.decoded_by(experiment.task, decoding), opened.labels()
    predictor = Predictor(opened, checkpoint, task)
    threshold, guarantee = predictor.threshold, predictor.guarantee
    temperature, outcomes = predictor.temperature, []
    default, decided, observed_on = list[Any](), list[Any](), list[Any]()
    rows = HardestFirst(task) if by_example else None
    fit = Fit()
    begin(len(examples))
    for part in new_texts.split_parts(task, examples):
        items, candidates = predictor(part, decoded)
        fit += task.fit(part, items)
        predictions = [task.decide(each) for each in candidates]
        default += map(compact, predictions)
        if threshold is not None:
            predictions = [task.decide(each, threshold) for each in candidates]
            decided += map(compact, predictions)
        if temperature is not None:
            outcomes.append(calibrated.outcomes(task, part, predictions))
        if rows is not None:
            sure = [calibrated.calibrate(task, x, temperature) for x in predictions]
            rows.add(part, sure)
        if guarantee is not None and is_new:
            observed_on += candidates
    notes = task.remarks(split, examples, fit, labels)
    cut = tuple(note.text for note in notes if isinstance(note, Truncation))
    for note in notes:
        if isinstance(note, str):
            warn(note)
    scores, tuned = scoring.score(task, examples, default, labels)[0], None
    calibration = None
    if temperature is not None and outcomes:
        some = [each for each in outcomes if len(each[1])] or outcomes[:1]
        columns = map(np.concatenate, zip(*some, strict=True))
        calibration = Calibration.from_outcomes(temperature, *columns)
    if threshold is not None:
        tuned = scoring.score(task, examples, decided, labels)[0]
    if rows is not None:
        rows.sort(examples, default if threshold is None else decided, labels)
    untaught = nothing_learnt(task, default, scores)
    if split == "test" and checkpoint == "best":
        untaught = untaught or opened.result().get("nothing_learnt")
    for text in predictor.remarks:
        warn(text)
    observed = {}
    if guarantee is not None and is_new:
        observed = observe(guarantee, task.judge(examples, labels, observed_on))
    return Evaluation(
        step=predictor.step,
        scores=scores,
        threshold=threshold,
        tuned=tuned,
        examples=rows or (),
        cut=cut,
        metric=task.primary_metric,
        nothing_learnt=untaught,
        guarantee=guarantee,
        observed=observed,
        calibration=calibration,
    )


def predict(
    run: Folder | Result,
    texts: Sequence[str],
    *,
    checkpoint: Which = "best",
    decisions: str | None = None,
) -> list[dict[str, Any]]:
    """Predict for new examples, with the threshold that was chosen on dev.

    Inputs that are cut off, and a threshold that promises nothing, are warnings.

    Args:
      run: folder of the run, or the result of `train`.
      texts: examples in the format of `dicejax predict`, such as sentences with spaces
        between the words.
      checkpoint: "best" by the dev score, or "last".
      decisions: how `compare` has moved them, such as "tuned threshold".

    Returns:
      For each text the object that `dicejax predict --json` prints.

    Raises:
      InputError: the run cannot be used, or a text lacks a part.
    """
    examples = texts_of(texts)
    results = predict_texts(
        _folder(run), examples, checkpoint, decisions=decisions, warn=warnings.warn
    )
    return [record for _, record, _ in results]


def texts_of(lines: Sequence[str]) -> list[Text]:
    """Return examples that are written as lines.

    Raises:
      InputError: a line is blank, or no text.
    """
    for number, line in enumerate(lines, start=1):
        with json_text.flaws_at(f"text {number}"):  # such as one in another encoding
            json_text.value_of(line, str)
        if not line.strip():
            raise InputError(f"text {number}: is blank; give some words")
    return [Text(number, line) for number, line in enumerate(lines, start=1)]


def predict_texts(
    folder: str,
    texts: Iterable[Text],
    which: Which = "best",
    path: str | None = None,
    *,
    decisions: str | None = None,
    tagged: bool = False,
    official: bool = False,
    begin: Callable[[int], None] = lambda count: None,
    decoded: Callable[[], None] = lambda: None,
    warn: Callable[[str], None] = lambda text: None,
) -> Iterator[tuple[Text, dict[str, Any], list[str]]]:
    """Yield predictions for examples, some of them at a time.

    The texts are looped over more than once: first all are checked, then some are
    predicted at a time, so that memory does not grow with their number.

    Positions in the records count from 0, the end excluded: `start` and `end` of an
    entity in words, `start_char` and `end_char` in characters of the text, or of the
    answer alone where the run reads prompts. A blank example has a record without
    labels. The examples of a file, whose `path` errors name, are each other's context
    where the run was trained with that. `begin` is called with the number of examples
    that are not blank, `decoded` after each of them. `tagged` results are for column
    files, `official` ones for `texts.official`.

    Yields:
      Each text, its record, and its prediction as lines for a terminal.

    Raises:
      InputError: the run cannot be used, an example lacks a part, words have no tags,
        or the task or an id does not suit `texts.official`.
    """
    run = Run.open(folder)
    experiment = run.experiment()
    task = experiment.task
    nothing: dict[str, Any] = {}  # the record of a blank example
    if task.reads_words:
        nothing, _ = task.show(task.parse((), 1), Prediction(()))
    if tagged and not text_files.has_tags(nothing):
        raise InputError(
            f"task {type(task).__name__} gives words no tags; write jsonl or text "
            "instead of conll"
        )
    if official:
        answers = experiment.task
        if not isinstance(answers, QuestionAnswering) or answers.several_spans:
            raise InputError(
                f"task {type(task).__name__} does not give each question the text of "
                "one answer; write jsonl instead of squad"
            )
        text_files.check_ids(texts, path)
    begin(sum(len(some) for _, some in new_texts.parts(experiment, texts, path)))
    predictor, cuts = Predictor(run, which, task, decisions), Cuts()
    for part, examples in new_texts.parts(experiment, texts, path):
        items, candidates = predictor(examples, decoded)
        cuts += count_cuts(items)
        decided = (task.decide(each, predictor.threshold) for each in candidates)
        temperature = predictor.temperature
        outputs = (
            task.show(example, calibrated.calibrate(task, prediction, temperature))
            for example, prediction in zip(examples, decided, strict=True)
        )
        for text in part:
            if text.is_blank:
                yield text, dict(nothing), [""]
                continue
            record, lines = next(outputs)
            yield text, with_characters(record, text), lines
    for note in cut_inputs(task.cut_text, "given", cuts):
        warn(str(note))
    for remark in predictor.remarks:
        warn(remark)
    if which == "best" and (untaught := run.result().get("nothing_learnt")):
        warn(f"nothing was learnt in training: {untaught}; see dicejax evaluate")


def _folder(run: Folder | Result) -> str:
    return run.folder if isinstance(run, Result) else os.fspath(run)


def with_characters(record: dict[str, Any], text: Text) -> dict[str, Any]:
    """Add the characters of entities, or of words that have labels."""
    words = record.get("words")
    if not words:
        return record
    content = text.text
    if "prompt" in record and text.words is None:
        content = content.partition("\t")[2]  # the answer alone
    joint = isinstance(words[0], dict)  # words that the task has found itself
    parts = list("".join(content.split())) if joint else words
    places = text_files.offsets(content, parts)
    if "labels" in record:
        return {**record, "offsets": [list(place) for place in places]}
    key, spans = "words" if joint else "entities", []
    for span in record[key]:
        start, end = places[span["start"]][0], places[span["end"] - 1][1]
        spans.append({**span, "start_char": start, "end_char": end})
    return {**record, key: spans}


def _moved(run: Run, which: Which, decisions: str) -> dict[str, Any]:
    """Return what `compare` has recorded of the moved decisions of a run."""
    if which != "best":
        raise InputError(f"--decisions is for the best checkpoint, not the {which} one")
    moved = run.baselines() or {}
    if decisions not in moved:
        there = "dicejax compare moves those of the losses it has trained"
        if moved:
            there = f"there are {', '.join(moved)}"
        raise InputError(f"{run.path}: has no {decisions}; {there}")
    if "shift" not in moved[decisions]:
        raise InputError(
            f"{run.path}: an earlier version has moved its decisions, and kept their "
            "scores alone; compare again with another --out"
        )
    return moved[decisions]


class Predictor:
    """A run's network, which decodes the candidates of some examples at a time.

    Attributes:
      threshold: threshold chosen on dev, if this is the best checkpoint.
      guarantee: the threshold with what it promises, if it promises something.
      temperature: that calibrates its probabilities, if dev gave one.
    """

    def __init__(self, run: Run, which: Which, task: Any, decisions: str | None = None):
        self._run, self._task = run, task
        self._which: Which = which
        self._training, self._labels = run.experiment().training, run.labels()
        self._tokenizer, self._network = run.tokenizer(), run.network()
        self._mesh = MeshShape().make(jax.local_devices())
        self._sequences = 0
        result = run.result() if which == "best" else {}
        chosen = result.get("threshold") or {}
        self.temperature: float | None = (result.get("calibration") or {}).get(
            "temperature"
        )
        self._shift: Shift = {}
        if decisions is not None:
            control = _moved(run, which, decisions)
            self._shift = {
                output: np.asarray(shift, np.float32)
                for output, shift in control["shift"].items()
            }
            chosen = {} if self._shift else {"threshold": control["value"]}
            self.temperature = None  # it is that of the logits as they were trained
        self.threshold: float | Mapping[str, float] | None = chosen.get("threshold")
        self.guarantee = guarantee_of(chosen or None)

    @functools.cached_property
    def _restored(self) -> tuple[int, Any]:
        return restore(self._run, self._network, self._which, self._mesh)

    @property
    def step(self) -> int:
        """Update at which the checkpoint was saved."""
        return self._restored[0]

    @property
    def remarks(self) -> Sequence[str]:
        """Warnings of a promise that could not be made."""
        return self.guarantee.warnings if self.guarantee else ()

    def __call__(
        self, examples: Sequence[Any], decoded: Callable[[], None] = lambda: None
    ) -> tuple[list[Item], list[Any]]:
        """Return the items and the candidates of examples, of none for none."""
        if not examples:
            return [], []
        task, training = self._task, self._training
        length = self._network.encoder.within_limit(training.max_length)
        items = task.encode(examples, self._tokenizer, self._labels, length)
        result = decode_examples(
            self._restored[1],
            examples,
            items,
            task=task,
            network=self._network,
            labels=self._labels,
            tokenizer=self._tokenizer,
            max_length=training.max_length,
            mesh=self._mesh,
            shifts=[self._shift],
            min_sequences=self._sequences,
            decoded=decoded,
        )
        self._sequences = result.sequences
        return items, result.candidates[0]
