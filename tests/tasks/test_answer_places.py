"""Answers have their characters of the context, whatever the text."""

import json

import numpy as np
import pytest

from dicejax.data.examples import ReadingExample
from dicejax.tasks.question_answering import QuestionAnswering

from ..data import made


@pytest.fixture(scope="module", params=made.KINDS)
def tokenizer(request, tmp_path_factory):
    return made.read(request.param, tmp_path_factory.mktemp("pieces"), words=False)


PLACES = [
    *made.TEXTS,
    "\U0001f600\U0001f600 A 👍🏽 é 🇩🇪 b.",
    "e\u0301a\u0300 o\u0308x\u0302 e\u0301",
    "one\r\ntwo\r\n\r\n three\r four",
    "a\tb  c\u00a0d",
    " ".join(f"w\u0301{n} 👩\u200d👧\r\n" for n in range(40)),  # several windows
]


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("context", PLACES)
def test_records_name_the_characters_of_answers(tokenizer, context, several):
    """Whatever the network says, and for the likeliest spans by enumeration."""
    form = "sigmoid" if several else "positions"
    task = QuestionAnswering(form=form, several_spans=several, stride=4)
    example = ReadingExample("q", "é ?", context, (), False)
    rng = np.random.default_rng(len(context))
    items = task.encode([example], tokenizer, (), 32)
    assert len(items) > 1 or context != PLACES[-1]
    outputs = [
        {n: -rng.exponential(1, len(i)).astype(np.float32) for n in ("start", "end")}
        for i in items
    ]
    ranked = task.decode(example, items, outputs)
    decided = task.decide(ranked, 1.0 if several else None)
    (record, _) = task.show(example, decided)
    record = json.loads(json.dumps(record))
    answers = record["answers"] if several else [record | {"text": record["answer"]}]
    if not ranked.spans:
        assert [x for x in answers if x["text"]] == [] and decided.spans == ()
        return
    assert len(answers) == len(decided.spans) > 0
    best = max(
        (
            float(output["start"][i] + output["end"][j])
            for item, output in zip(items, outputs, strict=True)
            for i in np.flatnonzero(item.detail.starts)
            for j in np.flatnonzero(item.detail.candidates)
            if i <= j < i + task.max_answer
        ),
    )
    for answer in answers:
        assert context[answer["start"] : answer["end"]] == answer["text"] != ""
        assert 0 < answer["probability"] <= 1
    if not several:
        assert record["probability"] == pytest.approx(np.exp(best), rel=1e-5)
