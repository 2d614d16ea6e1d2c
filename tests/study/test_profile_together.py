"""The profile counts labels that occur together as direct sums do."""

import io
import itertools
import json

import numpy as np
import pytest
from rich.console import Console

from dicejax.config import Experiment, Training
from dicejax.data.sources import JsonMultiLabelTexts
from dicejax.study.profile import from_json, profile, to_json
from dicejax.study.profile.report import report
from dicejax.tasks import MultiLabelClassification


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """Return the folder of a corpus, and its label sets by split."""
    folder, random = tmp_path_factory.mktemp("data"), np.random.default_rng(0)
    sets = {}
    for split, names in {"train": "abcd", "dev": "ab", "test": "abx"}.items():
        chosen = random.random((40, len(names))) < 0.35
        sets[split] = [list(itertools.compress(names, row)) for row in chosen.tolist()]
        # One text is several windows long, and still one text.
        lines = [
            {"text": "a b c " * (30 if n == 7 else 1), "labels": labels}
            for n, labels in enumerate(sets[split])
        ]
        text = "".join(f"{json.dumps(line)}\n" for line in lines)
        (folder / f"{split}.jsonl").write_text(text)
    return folder, sets


@pytest.fixture(scope="module")
def result(texts):
    experiment = Experiment(
        name="several",
        data=JsonMultiLabelTexts(dir=str(texts[0])),
        task=MultiLabelClassification(stride=8),
        training=Training(max_length=32, batch_size=4),
    )
    return profile(experiment, lambda text: None)


@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_sets_and_pairs_are_those_of_a_direct_count(texts, result, split):
    golds = texts[1][split]
    (output,) = result.splits[split].outputs
    sets = output.sets
    assert sets.texts == len(golds) == 40
    assert result.splits[split].sequences > 40
    assert sets.cardinality == pytest.approx(sum(map(len, golds)) / 40)
    assert sets.most == max(map(len, golds))
    assert sets.without == sum(not labels for labels in golds) > 0
    assert sets.distinct == len(set(map(tuple, golds)))
    counted = {pair.labels: pair for pair in sets.pairs}
    for pair in itertools.combinations("abcdx", 2):
        together = sum(set(pair) <= set(labels) for labels in golds)
        assert (pair in counted) == bool(together)
        if together:
            counts = [sum(name in labels for labels in golds) for name in pair]
            assert counted[pair].together == together
            assert counted[pair].expected == pytest.approx(counts[0] * counts[1] / 40)
    numbers = [pair.together for pair in sets.pairs]
    assert numbers == sorted(numbers, reverse=True)


def test_it_survives_its_json_and_is_printed(result):
    reasons = {label.label: label.reasons for label in result.support}
    assert "unseen" in reasons["x"] and "few" in reasons["a"]
    assert result.splits["train"].outputs[0].rule == "multi-label"
    assert from_json(to_json(result)) == result
    console = Console(width=100, file=io.StringIO())
    console.print(*report(result, "train"))
    text = console.file.getvalue()
    assert "labels per text on average" in text and "a + b" in text
