"""Spans by machine reading: one query per type, answered by spans of the sentence."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from tokenizers import Tokenizer

from dicejax.data import tokenize
from dicejax.data.examples import Sentence, Span
from dicejax.data.pack import BatchLayout
from dicejax.data.tokenize import EncodedText
from dicejax.errors import InputError, quote
from dicejax.metrics.scores import beta_of, class_of
from dicejax.metrics.thresholds import TunedThreshold, tune_spans
from dicejax.models.heads import AnswerabilityHead, Head, SpanMatchHead, StartEndHead
from dicejax.tasks import span_decoding, windows
from dicejax.tasks.judged import Judged, ThresholdRule
from dicejax.tasks.remarks import Fit, Remark
from dicejax.tasks.span_decoding import Candidate, Pairs, without_overlaps
from dicejax.tasks.spans import Sentences, SpanTask, judge_spans, spans_of
from dicejax.tasks.task import (
    IGNORED,
    Arrays,
    Item,
    Items,
    Labels,
    Outputs,
    Predicted,
    Prediction,
    Target,
    token_arrays,
    token_fills,
)

DEFAULT = 0.5
"""The threshold of spans where none is chosen."""
_CHUNK = 1024  # sentences at a time, of which pieces and their offsets are in memory
_FLOOR = 0.01  # below it a span is no candidate, whatever the threshold
_MOST = 10  # candidates a word, of the best scores: what an untrained network gives


@dataclasses.dataclass(frozen=True, kw_only=True)
class MachineReading(SpanTask):
    """Named entities, flat or nested, as answers to a query per type (BERT-MRC).

    Each sentence, or window of it, is read once for each query. Three outputs are
    trained: whether a span starts at a word, whether one ends there, and with `match`
    whether words i to j are a span. Labels are on the first pieces of the sentence's
    words; the query, special pieces and those further inside a word are left out.

    Args:
      queries: pairs of a type and its description.
      match: train the matching of starts and ends ("start_end_match"); without, a start
        goes with the nearest end ("start_and_end").
      nested: keep overlapping predictions; otherwise the best score wins.
      start_weight: weight of the loss of starts.
      end_weight: weight of the loss of ends.
      answerable: train whether the sentence has a span of the query's type, from the
        summary of both ([CLS]), and predict none where that is not likelier than not.
        The published scripts do, the paper does not.
      answerable_weight: weight of the loss of that; 0.2 to 0.4 in the scripts.
      match_weight: weight of the loss of pairs. After short training their
        probabilities are still low, and a tuned threshold helps.
      candidates: pairs that are labelled; see `match_labels`.
      match_width: hidden width of the match output; None: twice the encoder's.
      spans_per_start: maximum number of labelled spans of one type from one word.
      tune_threshold: tune the threshold of a span's score on dev, instead of 0.5.
      threshold: constraint that it keeps instead, as "complete:0.9": of new documents
        with spans at least this share has all of them found. "recall:0.95": of a
        type's spans in a document, this share on average; each type has a threshold.
        "recall:0.95:PER": of that type alone. "precision:0.9": of those predicted.
        Where the data have no documents, examples take their place.
      threshold_delta: probability that dev is a sample with which it, or any, does not.

    Raises:
      ValueError: there is no query, two are for one type, or one is blank.

    Source: Li et al., ACL 2020 (https://aclanthology.org/2020.acl-main.519);
    https://github.com/ShannonAI/dice_loss_for_NLP, tasks/mrc_ner.
    """

    measures: ClassVar[tuple[str, ...]] = ("recall", "precision", "complete")

    queries: tuple[tuple[str, str], ...]
    match: bool = True
    nested: bool = False
    start_weight: float = 1.0
    end_weight: float = 1.0
    match_weight: float = 0.1
    answerable: bool = False
    answerable_weight: float = 0.4
    candidates: Pairs = "gold_and_predicted"
    match_width: int | None = None
    spans_per_start: int = 2
    tune_threshold: bool = False
    threshold: str | None = None
    threshold_delta: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        types = [kind for kind, _ in self.queries]
        if not types:
            raise ValueError("queries is empty; want the text of at least one type")
        twice = sorted({kind for kind in types if types.count(kind) > 1})
        if twice:
            raise ValueError(f"queries has several for {', '.join(map(quote, twice))}")
        blank = [kind for kind, text in self.queries if not text.split()]
        if blank:
            raise ValueError(f"queries has no text for {', '.join(map(quote, blank))}")
        if self.spans_per_start < 1:
            raise ValueError(
                f"spans_per_start is {self.spans_per_start}; want at least 1"
            )
        self.heads(())  # checks the settings

    @property
    def threshold_rule(self) -> ThresholdRule:
        """Return 1/2 by default."""
        return ThresholdRule.for_task(self, DEFAULT, tunes=self.tune_threshold)

    def label_names(self, examples: Iterable[Sentence]) -> tuple[str, ...]:
        """Return the types in the order of their queries.

        Raises:
          InputError: a type has no query.
        """
        types = tuple(kind for kind, _ in self.queries)
        present = {span.type for sentence in examples for span in sentence.spans}
        missing = sorted(present.difference(types))
        if missing:
            raise InputError(
                f"no query for the type {', '.join(map(quote, missing))} of the data's "
                f"spans, only for {', '.join(map(quote, types))}; write one for each "
                "type in queries"
            )
        return types

    def texts(self, examples: Sentences) -> Iterable[str]:
        """Yield all words, of the queries too."""
        for _, text in self.queries:
            yield from text.split()
        yield from super().texts(examples)

    def heads(self, labels: Labels) -> tuple[tuple[str, Head], ...]:
        """Return a head for starts and ends, and one for pairs of them."""
        heads: dict[str, Head] = {"spans": StartEndHead(classes=1, form="sigmoid")}
        if self.match:
            heads["match"] = SpanMatchHead(width=self.match_width)
        if self.answerable:
            heads["answerable"] = AnswerabilityHead()
        return tuple(heads.items())

    def targets(self, labels: Labels) -> dict[str, Target]:
        """Return binary targets: start, end, pairs of both, and `answerable`."""
        names = {"start": "start", "end": "end"}
        if self.match:
            names["match"] = "span"
        if self.answerable:
            names["answerable"] = "answerable"
        is_predicted = self.candidates not in ("gold", "all")
        return {
            name: Target(
                "multi_label",
                (kind,),
                weight=getattr(self, f"{name}_weight"),
                # Which pairs are labelled depends on the network's starts and ends.
                follows_outputs=name == "match" and is_predicted,
            )
            for name, kind in names.items()
        }

    def layout(self, tokenizer: Tokenizer) -> BatchLayout:
        """Return the layout of an item's arrays."""
        tokens = token_fills(tokenizer) | span_decoding.fillers(self._ends_per_start)
        more: dict[str, Any] = {}
        if self.answerable:
            more["sequences"] = {"answerable": IGNORED}
            more["places"] = {"summary_positions": -1}
        return BatchLayout(tokens=tokens, **more)

    def encode(
        self, examples: Sentences, tokenizer: Tokenizer, labels: Labels, max_length: int
    ) -> list[Item]:
        """Encode each sentence once for each query, in the order of the queries.

        A long sentence is encoded in windows.

        Raises:
          InputError: a query leaves no room for the sentence.
        """
        items = []
        for number, kind, whole in self._pairs(examples, tokenizer):
            sentence = examples[number]
            taken = int((whole.texts != 1).sum())
            if len(whole) > max_length and taken >= max_length:
                raise InputError(
                    f"the query for {quote(kind)} takes {taken} pieces, special ones "
                    f"included, and {max_length} are allowed: no room for the "
                    f"sentence; shorten it or allow at least {taken + 1}"
                )
            first_pieces = whole.first_pieces(len(sentence.words), text=1)
            spans = dict.fromkeys(spans_of(sentence, kind), 1)
            both = np.array(list(spans), int).reshape(-1, 2)
            for pieces, window in windows.cut(
                whole, max_length, self.stride, text=1, words=first_pieces, kind=kind
            ):
                arrays = token_arrays(pieces) | span_decoding.labels(
                    spans, window, len(pieces), self._ends_per_start
                )
                if self.answerable:
                    # A span that the window cuts is neither an answer nor none.
                    partly = IGNORED if (window.words[both] >= 0).any() else 0
                    arrays["answerable"] = 1 if window.holds(spans).any() else partly
                    arrays["summary_positions"] = pieces.summary
                items.append(Item(arrays, number, window))
        return items

    def loss_inputs(self, outputs: Arrays, batch: Arrays) -> tuple[Arrays, Arrays]:
        """Return logits and labels with a class axis of 1."""
        gold = {name: batch[name] for name in self.targets(()) if name != "match"}
        if self.match:
            gold["match"] = span_decoding.match_labels(outputs, batch, self.candidates)
        logits = {name: outputs[name][..., None] for name in gold}
        return logits, {name: labels[..., None] for name, labels in gold.items()}

    def class_counts(self, items: Items, labels: Labels) -> dict[str, np.ndarray]:
        """Count the 0s and 1s of each output, int `[1, 2]`.

        Where labelled pairs depend on the network's own starts and ends, the pairs of a
        gold start and a gold end are counted; for "all" every pair.
        """
        counts = super().class_counts(items, labels)
        if self.match:
            counts["match"] = np.zeros((1, 2), int)
            for item in items:
                pairs = span_decoding.pair_counts(item.arrays, self.candidates)
                counts["match"] += pairs
        return counts

    def reduce_logits(self, outputs: Arrays, batch: Arrays) -> Predicted:
        """Return the logits; those of pairs in float16, which halves the transfer.

        Probabilities would all be 1 in float16, and overlaps are resolved by score.
        """
        predicted = Predicted({name: outputs[name] for name in ("start", "end")})
        if self.answerable:
            rows = len(batch["segment_ids"])
            predicted.sequences["answerable"] = outputs["answerable"].reshape(rows, -1)
        if self.match:
            largest = float(jnp.finfo(jnp.float16).max)
            match = jnp.clip(outputs["match"], -largest, largest)
            predicted.pairs["match"] = match.astype(jnp.float16)
        return predicted

    def decode(
        self, example: Sentence, items: Items, outputs: Outputs, labels: Labels
    ) -> list[Candidate]:
        """Find the spans of all types, with scores.

        Starts and ends are words of a probability over 1/2. With `match` all pairs of
        a start and an end at it or behind it are candidates, scored by the probability
        that they are a span. Without it each start goes with the nearest end, scored by
        the geometric mean of their two probabilities. With `answerable` there are none
        where the probability that there are is 1/2 or less.

        Candidates have a score of at least 0.01, and are the best 10 per word.
        """
        spans = []
        for item, output in zip(items, outputs, strict=True):
            may_have = output.get("answerable", 1.0) > 0
            words = item.detail.words[: None if may_have else 0]
            first, last, scores = span_decoding.scored_pairs(output, words)
            decided = item.detail.decides(first, last)
            spans.append((first[decided], last[decided], scores[decided]))
        sizes = [len(scores) for *_, scores in spans]
        kinds = np.repeat([item.detail.kind for item in items], sizes)
        columns = [kinds, *map(np.concatenate, zip(*spans, strict=True))]
        scores = columns[-1]
        best = np.argsort(-scores, kind="stable")[: _MOST * len(example.words)]
        best = np.sort(best[scores[best] >= _FLOOR])
        return [
            (Span(kind, first, last + 1), score)
            for kind, first, last, score in zip(
                *(column[best].tolist() for column in columns), strict=True
            )
        ]

    def decide(
        self,
        candidates: Sequence[Candidate],
        threshold: float | Mapping[str, float] | None = None,
    ) -> Prediction:
        """Keep spans whose score is not below a threshold; flat ones do not overlap.

        The probability of a span is its score, see `decode`.
        """
        limits: Mapping[str, float] = {}
        rest = DEFAULT if threshold is None else threshold
        if isinstance(rest, Mapping):
            limits, rest = rest, DEFAULT
        chosen = [
            (span, score)
            for span, score in self._compatible(candidates)
            if score >= limits.get(span.type, rest)
        ]
        chosen.sort(key=lambda pair: (pair[0].start, pair[0].end, pair[0].type))
        return Prediction([span for span, _ in chosen], [score for _, score in chosen])

    def tune(
        self,
        examples: Sentences,
        candidates: Sequence[Sequence[Candidate]],
        labels: Labels,
    ) -> TunedThreshold:
        """Choose the threshold with the best micro F1, exact also without overlaps.

        It is that with the best F-beta, or of one type, if that is the primary metric.
        """
        named = class_of(self.primary_metric)
        beta = beta_of(self.primary_metric) or 1.0
        gold = [{x for x in e.spans if named in (None, x.type)} for e in examples]
        judged = [
            (score, span in spans)
            for spans, scored in zip(gold, candidates, strict=True)
            for span, score in self._compatible(scored)
            if named in (None, span.type)
        ]
        total = sum(map(len, gold))
        if not judged:
            return TunedThreshold(DEFAULT, 0.0, DEFAULT, 0.0, 0, total, beta)
        scores, right = zip(*judged, strict=True)
        return tune_spans(scores, right, total, default=DEFAULT, beta=beta)

    def judge(
        self,
        examples: Sentences,
        labels: Labels,
        candidates: Sequence[Sequence[Candidate]] | None = None,
    ) -> dict[str, Judged]:
        """Return which spans of each type are right, or which documents have spans."""
        scored: list[dict[Span, float]] = [
            dict.fromkeys(example.spans, -np.inf) for example in examples
        ]
        for spans, pairs in zip(scored, candidates or (), strict=bool(candidates)):
            spans |= self._compatible(pairs)
        constraint = self.threshold_rule.constraint
        if constraint is None or constraint.measure == "complete":
            return judge_spans(examples, scored, None)
        kinds = [kind for kind, _ in self.queries]
        return judge_spans(examples, scored, kinds, by_label=True)

    def fit(self, examples: Sentences, items: Items) -> Fit:
        """Count sentences that a query reads in several windows, and the rest."""
        windows_of = Counter((item.example, item.detail.kind) for item in items)
        several = {example for (example, _), n in windows_of.items() if n > 1}
        return dataclasses.replace(super().fit(examples, items), several=len(several))

    def remarks(
        self, split: str, examples: Sentences, fit: Fit, labels: Labels
    ) -> list[Remark]:
        """Warn of types without a query, and of spans that cannot be predicted."""
        remarks = super().remarks(split, examples, fit, labels)
        groups = [spans_of(x, kind) for x in examples for kind, _ in self.queries]
        if self.match:
            reason = (
                f"start where {self.spans_per_start} others of their type do: learnt "
                "as no match; see spans_per_start"
            )
            starts = (Counter(start for start, _ in spans) for spans in groups)
            sizes = (n for counts in starts for n in counts.values())
            lost = sum(max(n - self.spans_per_start, 0) for n in sizes)
        else:
            reason = (
                "do not go from a start to the nearest end of their type: counted as "
                "misses; see match"
            )
            lost = sum(len(x) - len(span_decoding.recoverable_spans(x)) for x in groups)
        if lost:
            gold = sum(len(sentence.spans) for sentence in examples)
            remarks.append(f"{split}: {lost} of {gold} spans {reason}")
        return remarks

    @property
    def overlapping(self) -> str | None:
        """Nested predictions lose nothing."""
        return None if self.nested else "of which flat decoding keeps one; see nested"

    @property
    def _ends_per_start(self) -> int:
        return self.spans_per_start if self.match else 0

    def _pairs(
        self, examples: Sentences, tokenizer: Tokenizer
    ) -> Iterator[tuple[int, str, EncodedText]]:
        """Yield sentence number, type of the query and pieces of both."""
        texts = [text.split() for _, text in self.queries]
        for begin in range(0, len(examples), _CHUNK):
            words = [sentence.words for sentence in examples[begin : begin + _CHUNK]]
            seconds = [each for each in words for _ in texts]
            firsts = texts * len(words)
            encoded = tokenize.encode(tokenizer, firsts, seconds, every_word=True)
            for place, pieces in enumerate(encoded):
                number, query = divmod(place, len(texts))
                yield begin + number, self.queries[query][0], pieces

    def _compatible(self, candidates: Sequence[Candidate]) -> Sequence[Candidate]:
        return candidates if self.nested else without_overlaps(candidates)
