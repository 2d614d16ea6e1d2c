"""The report gives scores of constant predictions, and names runs no better."""

import json

import pytest
from sklearn.metrics import accuracy_score, f1_score

from dicejax.data.examples import LabelledText
from dicejax.objectives import CrossEntropy, Dice
from dicejax.study import compare as comparison
from dicejax.study import report
from dicejax.study.compare.failures import one_class
from dicejax.study.report.sections import all_positive
from dicejax.tasks import Classification, Prediction

from .made_runs import made, record_of, run_of

GOLD = ["yes"] * 65 + ["no"] * 34


def scored(predicted, gold=GOLD, labels=("no", "yes")):
    """Return the scores as a run's result has them."""
    examples = [LabelledText("a", None, label, "0", 1) for label in gold]
    even = dict.fromkeys(labels, 1 / len(labels))
    decisions = [Prediction((label,), even) for label in predicted]
    scores = Classification().score(examples, decisions, labels)
    return json.loads(json.dumps(scores.to_json()))


THREE = list("abcabcabc")


@pytest.mark.parametrize(
    ("predicted", "gold", "alike"),
    [
        (["yes"] * 99, GOLD, True),
        (["no"] * 99, GOLD, True),
        (["yes"] * 98 + ["no"], GOLD, False),
        (["no"] + ["yes"] * 98, GOLD, False),
        (GOLD, GOLD, False),
        (["yes"] * 65, ["yes"] * 65, False),  # it is right
        (["b"] * 9, THREE, True),
        (["a", "b", "b"] * 3, THREE, False),
        # All of a are right, the others are confused with each other.
        (["a", "c", "b"] * 3, THREE, False),
    ],
)
def test_texts_that_are_all_classified_alike(predicted, gold, alike):
    labels = tuple("abc") if gold is THREE else ("no", "yes")
    assert one_class(scored(predicted, gold, labels)) == alike


def test_what_calling_every_text_positive_scores():
    truth, every = [label == "yes" for label in GOLD], [True] * len(GOLD)
    f1, accuracy = f1_score(truth, every), accuracy_score(truth, every)
    (sentence,) = all_positive(scored(GOLD))
    assert sentence.startswith(
        f"Always answering 'yes' scores F1 {100 * f1:.2f}, "
        f"accuracy {100 * accuracy:.2f}, Matthews 0.00."
    )
    assert scored(["yes"] * 99)["f1"] == pytest.approx(f1)
    # Other tasks have no such answer.
    of_spans = {"f1": 1.0, "per_type": {"PER": {"f1": 1.0, "support": 3}}}
    assert not one_class(of_spans) and not all_positive(of_spans)
    three = scored(list("abcabc"), list("abcabc"), tuple("abc"))
    assert not all_positive(three)


def test_the_report_names_the_runs(tmp_path):
    jobs = made(tmp_path, (CrossEntropy(), Dice()), 5)
    for job in jobs:
        run = run_of(job)
        alike = job.loss == "dice" and job.seed in (1, 4)
        test = scored(["yes"] * 99 if alike else ["no", *GOLD[1:]])
        run.write_result({**run.result(), "test": test})
    report.write(comparison.evaluate_runs(jobs, str(tmp_path)))
    (warning,) = record_of(tmp_path)["warnings"]
    names = "2 of 10 runs learnt nothing: dice seed 1, dice seed 4. 2 of them predict "
    assert warning.startswith(f"{names}the same class for every test example")
    assert "train longer" in warning
    for name in ("report.html", "report.md"):
        text = (tmp_path / name).read_text()
        assert "2 of them predict the same class" in text
        assert "scores F1 79.27, accuracy 65.66, Matthews 0.00" in text
