"""Words that a threshold marks in tagging, and the spans that it so finds."""

import jax.numpy as jnp
import numpy as np
import pytest

from dicejax.data import tags
from dicejax.data.examples import Sentence, Span
from dicejax.metrics.bounds import Observation
from dicejax.tasks import Item, JointTagging, Prediction, Tagging

from .perfect import guaranteed, observed_on


def test_words_are_marked_by_the_probability_that_they_are_not_outside():
    rng, labels = np.random.default_rng(9), ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")
    task = Tagging(threshold="recall:0.7:PER")
    logits = rng.normal(size=(1, 6, 5)).astype(np.float32) * 3
    logits[0, 0, 0] = 40  # a probability that 1 - P(O) would round to 0
    tokens = task.reduce_logits({"tags": jnp.asarray(logits)}, {}).tokens
    shares = np.exp(logits.astype(float))
    inside = shares[..., 1:].sum(-1) / shares.sum(-1)
    item = Item({}, 0, np.array([0, 1, -1, 3, 4, 5]))  # the third has no piece
    output = {name: np.asarray(array)[0] for name, array in tokens.items()}
    sentence = Sentence(("x",) * 6, (Span("PER", 3, 5),), 1)
    words = task.decode(sentence, [item], [output], labels)
    has_piece = np.arange(6) != 2
    np.testing.assert_allclose(
        np.array(words.probabilities, float)[has_piece], inside[0][has_piece], 1e-5
    )
    best = logits[0, :, 1:].argmax(-1) + 1
    for limit in (None, 0.0, 0.3, 0.9):
        marked = inside[0] >= (0.5 if limit is None else limit)
        names = [
            labels[n] if k and p else "O"
            for n, k, p in zip(best, marked, has_piece, strict=True)
        ]
        assert task.decide(words, limit).values == tags.spans(names, "BIO")
    # A span is found when all of its words are.
    (judged,) = (task.judge([sentence], labels, [words])["PER"],)
    assert judged.gold[-1] and sum(judged.gold) == 1
    assert judged.scores[-1] == pytest.approx(inside[0, 3:5].min())
    plain = Tagging().reduce_logits({"tags": jnp.asarray(logits)}, {}).tokens
    assert np.array_equal(plain["tags"][0], logits[0].argmax(-1))


@pytest.mark.parametrize("text", ["recall:0.7", "recall:0.7:PER", "complete:0.6"])
def test_marked_words_hold_what_was_promised_of_spans(text):
    rng, labels = np.random.default_rng(10), ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")
    task, examples, candidates = Tagging(threshold=text), [], []
    for number in range(200):
        spans = [Span("PER", 0, 2), Span("LOC", 3, 4)][: 1 + number % 2]
        inside = np.isin(np.arange(6), [0, 1, 3][: 1 + number % 2 * 2])
        chances = (rng.random(6) + inside) / 2
        examples.append(Sentence(("x",) * 6, tuple(spans), number))
        candidates.append(Prediction(["I-LOC"] * 6, chances.tolist()))
    chosen = guaranteed(task, examples, candidates, labels, 1)
    (observed,) = observed_on(task, chosen, examples, candidates, labels).values()
    shares = []
    for example, each in zip(examples, candidates, strict=True):
        marked = np.zeros(6, bool)
        for span in task.decide(each, chosen.threshold).values:
            marked[span.start : span.end] = True
        gold = [s for s in example.spans if s.type == "PER" or "PER" not in text]
        shares.append(np.mean([marked[s.start : s.end].all() for s in gold]))
    if text.startswith("complete"):
        assert observed == Observation(sum(np.array(shares) == 1), 200)
    else:
        assert observed.value == pytest.approx(np.mean(shares))
        assert observed.units == "examples"
    assert chosen.bound < observed.value < 0.9
    assert not isinstance(chosen.threshold, dict)
    with pytest.raises(ValueError, match="JointTagging cannot promise recall"):
        JointTagging(threshold="recall:0.9")
