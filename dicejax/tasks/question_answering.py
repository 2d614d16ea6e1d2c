"""Reading comprehension: the part of a text that answers a question."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import jax
import numpy as np
from tokenizers import Tokenizer

from dicejax.data import tokenize
from dicejax.data.examples import ReadingExample, groups_of
from dicejax.data.pack import BatchLayout
from dicejax.metrics.scores import Scores
from dicejax.metrics.thresholds import TunedThreshold
from dicejax.models.heads import (
    IMPOSSIBLE,
    AnswerHead,
    Head,
    StartEndHead,
    own_log_softmax,
)
from dicejax.models.settings import check_choice
from dicejax.tasks import answers
from dicejax.tasks.answers import Answer, Candidate, Questions, RankedAnswers
from dicejax.tasks.judged import Judged, ThresholdRule
from dicejax.tasks.remarks import Fit, Remark, cut_inputs
from dicejax.tasks.task import (
    IGNORED,
    Arrays,
    Item,
    Items,
    Labels,
    Outputs,
    Predicted,
    Target,
    Task,
    count_cuts,
    mean_statistics,
    token_arrays,
    token_fills,
)
from dicejax.tasks.texts import line_of

HEAD = "answer"
START, END, NONE = "start", "end", "impossible"  # the outputs of the heads
DEFAULT = 0.0
"""The no-answer score up to which a question is answered, where none is chosen."""
_CHUNK = 1024  # questions at a time, which bounds the memory
_PAIRS = 5  # of k spans side by side, k (k + 1) / 2 pairs of ends look like a span


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuestionAnswering(Task):
    """Extractive reading, as SQuAD v1.1, SQuAD v2.0 and Quoref ask for it.

    A context too long for one sequence is cut into windows that overlap. A window that
    does not hold the answer wholly is trained to hold none. A span's score is log
    P(start) + log P(end), with XLNet's head also + log P(possible) of the window, which
    then learns no positions where it holds no answer. The best over all windows is the
    answer, among spans of at most `max_answer` pieces whose first piece no other window
    shows with more around it. Of several answers the first is trained.

    How likely it is that there is no answer is a difference of logarithms, with 0 for
    "as likely as not"; a question is refused above the threshold, which is 0 or tuned:

    | form, head | no-answer score |
    | --- | --- |
    | "positions" | min over windows of log P(start, end = [CLS]) - best score |
    | "sigmoid" | log (1 - P) - log P, with P = exp(best score) |
    | "xlnet" | min over windows of log P(impossible) - log P(possible) |

    The original run_squad.py takes logits where this takes log P: the same within a
    window, but not comparable across windows.

    Args:
      stride: overlap of neighbouring windows in pieces (Hugging Face's `doc_stride`;
        the original's is the distance between their beginnings). At most half a window.
      max_question: maximum pieces of a question; longer ones are truncated.
      max_answer: maximum pieces of a predicted answer; trained ones may be longer.
      form: "positions": a softmax over the window's positions, [CLS] for no answer.
        "sigmoid": binary starts and ends per piece, as set losses such as dice need.
        "softmax": what "sigmoid" becomes with a loss over positions (`position_ce`),
        and trains and decodes as "positions"; with another loss it is "sigmoid".
      head: "start_end": both ends by one dense layer. "xlnet": the end sees the start,
        and a third output says whether the question is impossible.
      unanswerable: allow questions without an answer (SQuAD v2.0).
      several_spans: allow answers of several spans (Quoref). With form "sigmoid" all
        are trained, and disjoint spans with the largest sum of log-odds are predicted.
        With form "positions" the first is trained and one predicted.
      n_best: number of candidates per question; five times as many for several spans.
      tune_threshold: tune the threshold of refusal, or of several spans, on dev.
      threshold: constraint that refusal keeps instead: "fpr:0.05" for the share of
        questions without an answer that get one, "recall:0.95" for that of others.
      threshold_delta: probability that dev is a sample with which it does not.

    Raises:
      ValueError: a number is too small, or settings exclude each other.

    Source: Devlin et al., "BERT", NAACL 2019, sections 4.2 and 4.3; Yang et al.,
    "XLNet", NeurIPS 2019, appendix A.
    """

    takes: ClassVar[tuple[type, ...]] = (ReadingExample,)
    reads_words: ClassVar[bool] = False
    cut_text: ClassVar[str] = (
        "{split}: {cuts.count} of {cuts.total} questions are cut off; raise "
        "--task.max_question"
    )

    stride: int = 128
    max_question: int = 64
    max_answer: int = 30
    form: Literal["positions", "sigmoid", "softmax"] = "positions"
    head: Literal["start_end", "xlnet"] = "start_end"
    unanswerable: bool = False
    several_spans: bool = False
    n_best: int = 20
    tune_threshold: bool = False
    threshold: str | None = None
    threshold_delta: float = 0.1

    measures: ClassVar[tuple[str, ...]] = ("recall", "fpr")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("max_question", "max_answer", "n_best"):
            if (value := getattr(self, name)) < 1:
                raise ValueError(f"{name} is {value}; want 1 or more")
        check_choice("form", self.form, ("positions", "sigmoid", "softmax"))
        check_choice("head", self.head, ("start_end", "xlnet"))
        if self.head == "xlnet" and self.form != "positions":
            raise ValueError(f"head 'xlnet' chooses positions; {self.form!r} does not")
        if self.unanswerable and self.several_spans:
            raise ValueError("set unanswerable or several_spans: no metric has both")
        several = self.several_spans and self.form != "positions"
        if self.tune_threshold and not (self.unanswerable or several):
            raise ValueError(
                "tune_threshold is for unanswerable, or several_spans with form sigmoid"
            )
        if self.threshold is not None and not self.unanswerable:
            fault = f"threshold {self.threshold} is for unanswerable questions"
            raise ValueError(fault)

    @property
    def threshold_rule(self) -> ThresholdRule | None:
        """Return 0 by default, as likely as not, where a threshold decides."""
        if not (self.unanswerable or self._takes_several):
            return None
        return ThresholdRule.for_task(self, DEFAULT, tunes=self.tune_threshold)

    def over_positions(self, positions: bool) -> QuestionAnswering:
        """Return form "sigmoid" as "softmax", or back."""
        if self.form == "positions":
            return self
        return dataclasses.replace(self, form="softmax" if positions else "sigmoid")

    @property
    def _is_binary(self) -> bool:
        return self.form == "sigmoid"

    @property
    def _takes_several(self) -> bool:
        return self.several_spans and self._is_binary

    def adapt(self, examples: Questions) -> Sequence[ReadingExample]:
        """Check that settings and data agree on the kind of answers."""
        adapted = super().adapt(examples)
        answers.require_kinds(adapted, self.unanswerable, self.several_spans)
        return adapted

    def label_names(self, examples: Questions) -> tuple[str, ...]:
        """Return nothing: positions have no names."""
        return ()

    def texts(self, examples: Questions) -> Iterable[str]:
        """Yield the words of all questions, and of each context once."""
        for example in examples:
            yield from example.question.split()
        for context in dict.fromkeys(example.context for example in examples):
            yield from context.split()

    def heads(self, labels: Labels) -> tuple[tuple[str, Head], ...]:
        """Return the one head.

        XLNet's is not given the gold start, which would reveal `impossible`.
        """
        head = StartEndHead(form="sigmoid" if self._is_binary else "positions")
        is_xlnet = self.head == "xlnet"
        return ((HEAD, AnswerHead(teacher="predicted") if is_xlnet else head),)

    def targets(self, labels: Labels) -> dict[str, Target]:
        """Return positions or binary targets; `impossible` is binary.

        Each has half the weight, as published.
        """
        end = Target("positions", weight=0.5)
        if self._is_binary:
            end = Target("multi_label", (HEAD,), weight=0.5)
        targets = {START: end, END: end}
        if self.head == "xlnet":
            targets[NONE] = Target("multi_label", (NONE,), weight=0.5)
        return targets

    def layout(self, tokenizer: Tokenizer) -> BatchLayout:
        """Return the layout of an item's arrays."""
        tokens = token_fills(tokenizer)
        ends = {START: IGNORED, END: IGNORED}
        if self._is_binary:
            return BatchLayout(tokens=tokens | ends)
        return BatchLayout(
            tokens=tokens,
            sequences={NONE: IGNORED} if self.head == "xlnet" else {},
            places=ends | {"summary_positions": -1},
        )

    def encode(
        self, examples: Questions, tokenizer: Tokenizer, labels: Labels, max_length: int
    ) -> list[Item]:
        """Encode each window as one item; its detail is the `ContextPart`."""
        items = []
        for begin in range(0, len(examples), _CHUNK):
            chunk = examples[begin : begin + _CHUNK]
            columns = [e.question for e in chunk], [e.context for e in chunk]
            encoded = tokenize.encode_texts(tokenizer, *columns)
            pairs = zip(chunk, encoded, strict=True)
            for number, (example, pair) in enumerate(pairs, begin):
                limits = max_length, self.stride, self.max_question
                parts = answers.cut_context(example, pair, *limits)
                is_cut = bool((pair.texts == 0).sum() > self.max_question)
                items += [Item(self._arrays(p), number, p, is_cut) for p in parts]
        return items

    def _arrays(self, part: answers.ContextPart) -> dict[str, Any]:
        """Return the input and the gold labels of one window."""
        gold, arrays = part.gold, token_arrays(part.encoded)
        if self._is_binary:
            # What can be no answer is left out of the loss, and all if gold is unknown.
            labelled = part.candidates & (gold is not None)
            spans = np.array([span for span in self._trained_spans(gold) if span], int)
            for name, places in zip((START, END), spans.reshape(-1, 2).T, strict=True):
                arrays[name] = np.where(labelled, 0, IGNORED).astype(np.int32)
                arrays[name][places] = 1
            return arrays
        arrays["summary_positions"] = part.encoded.summary
        (span,) = self._trained_spans(gold) or (None,)
        none = (IGNORED if self.head == "xlnet" else part.encoded.summary,) * 2
        ends = (IGNORED, IGNORED) if gold is None else span or none
        arrays[START], arrays[END] = ends
        if self.head == "xlnet":
            arrays[NONE] = IGNORED if gold is None else int(span is None)
        return arrays

    def _trained_spans(self, spans: Sequence[Any] | None) -> Sequence[Any]:
        """Return the spans of an answer that are trained."""
        return (spans or ())[: None if self._takes_several else 1]

    def loss_inputs(self, outputs: Arrays, batch: Arrays) -> tuple[Arrays, Arrays]:
        """Add a class axis of 1 to binary logits and labels."""
        targets = self.targets(()).items()
        names = [name for name, target in targets if target.kind == "multi_label"]
        logits, labels = ({n: x[n][..., None] for n in names} for x in (outputs, batch))
        return {**outputs, **logits}, {**batch, **labels}

    def reduce_logits(self, outputs: Arrays, batch: Arrays) -> Predicted:
        """Return log-probabilities of each token, and the logit of `impossible`."""
        if self._is_binary:
            return Predicted({n: jax.nn.log_sigmoid(outputs[n]) for n in (START, END)})
        segment_ids = batch["segment_ids"]
        tokens = {n: own_log_softmax(outputs[n], segment_ids) for n in (START, END)}
        if self.head == "start_end":
            return Predicted(tokens=tokens)
        return Predicted(tokens, {NONE: outputs[NONE].reshape(len(segment_ids), -1)})

    def decode(
        self, example: ReadingExample, items: Items, outputs: Outputs, labels: Labels
    ) -> RankedAnswers:
        """Find the best spans of all windows; each is a part of the context."""
        count = self.n_best * (_PAIRS if self._takes_several else 1)
        spans, refusals = list[tuple[float, int, int]](), list[float]()
        for item, output in zip(items, outputs, strict=True):
            part, start, end = item.detail, output[START], output[END]
            scores, first, last = answers.best_spans(
                part, start, end, longest=self.max_answer, count=count
            )
            if self.head == "xlnet":
                refusals.append(float(output[NONE]))
                scores = scores - np.logaddexp(0, output[NONE])  # log P(possible)
            else:
                summary = part.encoded.summary
                refusals.append(float(start[summary] + end[summary]))
            ends = (places.tolist() for places in part.characters(first, last))
            spans += zip(scores.tolist(), *ends, strict=True)
        unique: dict[tuple[int, int], float] = {}
        for score, i, j in sorted(spans, key=lambda span: -span[0]):
            unique.setdefault((i, j), score)
        top = itertools.islice(unique.items(), count)
        candidates = tuple(
            Candidate(example.context[i:j], i, j, x) for (i, j), x in top
        )
        best = candidates[0].score if candidates else 2 * IMPOSSIBLE
        if self._is_binary:
            return RankedAnswers(candidates, -answers.log_odds(best))
        no_answer = min(refusals) - (best if self.head == "start_end" else 0)
        return RankedAnswers(candidates, no_answer)

    def decide(
        self, candidates: RankedAnswers, threshold: float | None = None
    ) -> Answer:
        """Take the best candidate, several, or none."""
        limit = DEFAULT if threshold is None else threshold
        chosen = candidates.spans[:1]
        best = "".join(candidate.text for candidate in chosen)
        if self.unanswerable and candidates.no_answer > limit:
            chosen = ()
        elif self._takes_several:
            weights = [answers.log_odds(c.score) + limit for c in candidates.spans]
            chosen = answers.disjoint_answers(candidates.spans, weights) or chosen
        return Answer(tuple(chosen), candidates.no_answer, best)

    def tune(
        self, examples: Questions, candidates: Sequence[RankedAnswers], labels: Labels
    ) -> TunedThreshold:
        """Choose the threshold with the best mean F1: of refusal, or of several spans.

        Every threshold of refusal is tried, halfway between two no-answer scores. Of
        equally good ones the default is taken, or else the one that refuses most. For
        several spans 32 thresholds are tried.
        """
        if self.threshold_rule is None:
            raise ValueError(f"{type(self).__name__} decides nothing by a threshold")
        if not examples:
            raise ValueError("there are no questions to choose a threshold from")
        if self._takes_several:

            def f1(limit: float) -> float:
                predictions = [self.decide(each, limit) for each in candidates]
                return self.score(examples, predictions).values["f1"]

            return answers.best_of_several(examples, candidates, f1)
        answered = [self.decide(ranked, math.inf) for ranked in candidates]
        f1s = self.example_statistics(examples, answered)[:, 0, 0]
        gold, scores, *_ = self.judge(examples, (), candidates)[""]
        return answers.best_refusal(f1s, 1.0 - np.array(gold), -np.array(scores))

    def judge(
        self,
        examples: Questions,
        labels: Labels = (),
        candidates: Sequence[RankedAnswers] | None = None,
    ) -> Mapping[str, Judged]:
        """Return which questions have an answer, and minus their no-answer scores."""
        if not self.unanswerable:
            return super().judge(examples, labels, candidates)
        scores = None if candidates is None else [-x.no_answer for x in candidates]
        gold = [bool(answers.gold_texts(example)) for example in examples]
        # A question is answered below the threshold.
        return {"": Judged(gold, scores, groups_of(examples), "contexts", sign=-1)}

    def labelled(
        self, example: ReadingExample, prediction: Answer | None = None
    ) -> list[tuple[str, int]]:
        """Return one place if the question has an answer, right or wrong."""
        parts = prediction.spans if prediction else answers.gold_texts(example)
        return [("", 0)] if parts else []

    def score(
        self,
        examples: Questions,
        predictions: Sequence[Answer],
        labels: Labels = (),
        *,
        characters: bool | None = None,
    ) -> Scores:
        """Score with the official measure of the data set.

        `f1` and `exact` are means over all questions. SQuAD v2.0 adds `answerable_f1`,
        `unanswerable`, the share of the others refused, and `f1_at_own_best_threshold`,
        tuned on these very questions. `characters` are counted as `by_characters` says.
        """
        if characters is None:
            characters = answers.by_characters(examples)
        forms = {"several": self.several_spans, "unanswerable": self.unanswerable}
        return answers.score_answers(examples, predictions, characters, **forms)

    def example_statistics(
        self, examples: Questions, predictions: Sequence[Answer], labels: Labels = ()
    ) -> np.ndarray:
        """Return the F1 of each question, in the unit of the split's."""
        unit = answers.by_characters(examples)
        pairs = zip(examples, predictions, strict=True)
        forms = {"several": self.several_spans, "unanswerable": self.unanswerable}
        return mean_statistics([answers.f1_of(x, y, unit, **forms) for x, y in pairs])

    def fit(self, examples: Questions, items: Items) -> Fit:
        """Count what does not fit in windows, and answers by why none can be predicted.

        Only the first annotator's answer counts. One that begins or ends inside a piece
        counts unless its pieces are an exact match after normalisation.
        """
        groups: list[list[answers.ContextPart]] = [[] for _ in examples]
        for item in items:
            groups[item.example].append(item.detail)
        pairs = zip(examples, groups, strict=True)
        lost = Counter(self._hindrance(*pair) for pair in pairs if pair[0].answers)
        return Fit(count_cuts(items), lost=lost)

    def remarks(
        self, split: str, examples: Questions, fit: Fit, labels: Labels = ()
    ) -> list[Remark]:
        """Warn of answers that cannot be predicted, and why."""
        unit = answers.by_characters(examples) and not self.several_spans
        lost = answers.remarks_of(split, fit.lost, by_characters=unit)
        return [*lost, *cut_inputs(self.cut_text, split, fit.cuts)]

    def _hindrance(
        self, example: ReadingExample, parts: list[answers.ContextPart]
    ) -> str | None:
        """Return why an answer cannot be predicted; None if it can."""
        answer = example.answers[0]
        count = len(self._trained_spans(answer))
        spans = answers.covered_characters(parts, count, longest=self.max_answer)
        if isinstance(spans, str) or len(spans) < len(answer):
            return spans if isinstance(spans, str) else "several"
        texts = [example.context[slice(*ends)] for ends in spans]
        if texts == [span.text for span in answer]:
            return None
        covered = Answer(tuple(Candidate(text, 0, 0, 0.0) for text in texts))
        exact = self.score([example], [covered]).values["exact"]
        return None if exact else "inexact"

    def parse(self, text: str | Sequence[str], number: int) -> ReadingExample:
        """Take a question, a tab, and the text to read."""
        return answers.parse_question(line_of(self, text, number), number)

    def show(
        self, example: ReadingExample, prediction: Answer
    ) -> tuple[dict[str, Any], list[str]]:
        """Format the answers with their characters, None where there is no answer."""
        record: dict[str, Any] = {"id": example.id, "question": example.question}
        record |= prediction.to_json(several=self.several_spans)
        if self.unanswerable:
            record["no_answer"] = prediction.no_answer
        texts = prediction.texts or ["no answer"]
        return record, [example.question, *(f"  {text}" for text in texts)]
