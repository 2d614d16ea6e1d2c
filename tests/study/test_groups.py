"""Documents of the test set are the items that intervals of runs are over."""

import json
import math

import numpy as np
import pytest

from dicejax import formats
from dicejax.data.examples import LabelledText, ReadingExample, groups_of
from dicejax.errors import InputError
from dicejax.objectives import CrossEntropy, Focal
from dicejax.study import compare as comparison

from .made_runs import SENTENCES, made, record_of, run_of

DOCUMENTS = 23


@pytest.fixture
def folder(tmp_path):
    """Runs of two losses, whose sentences are of documents; one run is an old one."""
    jobs = made(tmp_path, (CrossEntropy(), Focal()), 4, skill=(0.7, 0.8))
    groups = np.sort(np.random.default_rng(5).integers(0, DOCUMENTS, SENTENCES))
    for job in jobs[1:]:
        run = run_of(job)
        run.write_statistics(run.example_statistics(), groups=groups)
    return tmp_path, jobs, groups


def f1_of(counts):
    """Return micro F1 of [N, 2]: twice the true positives, predicted plus gold."""
    above, below = counts.sum(0)
    return above / below


def by_hand(jobs, groups):
    """Return mean and errors of the crossed model over documents, in plain loops."""
    numbers = sorted(set(groups))
    scores, z = np.zeros(4), np.zeros((4, len(numbers)))
    for job in jobs:
        counts = run_of(job).example_statistics()[:, 0]
        sign = -1 if job.loss == "ce" else 1
        without = np.array([f1_of(counts[groups != g]) for g in numbers])
        scores[job.seed] += sign * f1_of(counts)
        z[job.seed] += sign * (len(numbers) - 1) * (without.mean() - without)
    seeds, items = z.shape
    mean_squares = seeds * np.sum(z.mean(0) ** 2) / (items - 1)
    rest = sum(
        (z[s, n] - z[:, n].mean()) ** 2 for s in range(seeds) for n in range(items)
    )
    rest /= (seeds - 1) * (items - 1)
    return {
        "mean": np.mean(scores),
        "seed_error": np.std(scores, ddof=1) / math.sqrt(seeds),
        "sentence_error": math.sqrt(max(mean_squares - rest, 0) / (seeds * items)),
        "same_seeds_error": math.sqrt(mean_squares / (seeds * items)),
    }


def test_the_item_error_is_that_of_documents(folder):
    path, jobs, groups = folder
    result = comparison.compare_runs([str(path)])
    crossed = result.rows[1].against.crossed
    assert crossed.sentences == len(set(groups)) == DOCUMENTS
    for name, value in by_hand(jobs, groups).items():
        assert getattr(crossed, name) == pytest.approx(value, rel=1e-9), name
    everywhere = f"95% CI over seeds and {DOCUMENTS} documents"
    assert any(everywhere in line for line in result.lines())
    page = (path / "report.md").read_text()
    assert everywhere in page and f"conll03 in {DOCUMENTS} documents" in page
    assert "seeds crossed with 23 documents" in page
    methods = (path / "methods.txt").read_text()
    assert f"({SENTENCES} examples in {DOCUMENTS} documents)" in methods
    assert "seeds crossed with documents:" in methods
    record = record_of(path)
    against = record["losses"]["focal"]["against_baseline"]
    assert against["crossed"]["sentences"] == DOCUMENTS


def test_runs_with_other_documents_are_refused(folder):
    path, jobs, groups = folder
    run = run_of(jobs[-1])
    run.write_statistics(run.example_statistics(), groups=groups[::-1])
    with pytest.raises(InputError, match="other documents of the test examples"):
        comparison.compare_runs([str(path)])


START = "-DOCSTART- -X- O\n\n"
CONLL = f"{START}Ada B-PER\n\nslept O\n\n{START}Paris B-LOC\n"
TREES = """# newdoc id = a
# sent_id = 1
1\tAda\t_\tPROPN\t_\t_\t_\t_\t_\t_

# sent_id = 2
1\tslept\t_\tVERB\t_\t_\t_\t_\t_\t_

# newdoc id = b
1\tParis\t_\tPROPN\t_\t_\t_\t_\t_\t_
"""
TOKENS = "".join(
    json.dumps({"doc_id": n, "tokens": ["Ada"], "ner_tags": ["B-PER"]}) + "\n"
    for n in (7, 7, 9)
)
SPANS = "".join(
    json.dumps({"document": n, "text": "Ada", "entities": []}) + "\n" for n in "aab"
)


def read_table(path):
    return formats.CsvFiles(dir="", first="text", label="label").read(path, None)


TABLE = "text,label,doc_id\nfine,a,x\ndull,b,x\nodd,a,y\n"


@pytest.mark.parametrize(
    ("name", "text", "read"),
    [
        ("a.txt", CONLL, formats.ConllFiles.read_file),
        ("a.txt", CONLL, formats.WordLabelFiles.read_file),
        ("a.conllu", TREES, formats.ConlluFiles.read_file),
        ("a.jsonl", TOKENS, formats.JsonSentences.read_file),
        ("a.jsonl", SPANS, formats.JsonSentences.read_file),
        ("a.csv", TABLE, read_table),
    ],
)
def test_files_say_which_examples_are_of_a_document(tmp_path, name, text, read):
    (tmp_path / name).write_text(text)
    examples = read(tmp_path / name)
    assert groups_of(examples).tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    ("documents", "groups"),
    [
        ("aabb", [0, 0, 1, 1]),
        ("abab", [0, 1, 0, 1]),
        ("aaaa", None),  # one document tells nothing
        ("abcd", None),  # each is its own
        (["a", "", "a", "b"], None),  # unknown for one
        (["", "", "", ""], None),
    ],
)
def test_groups_are_of_two_documents_or_more(documents, groups):
    texts = [LabelledText("x", None, "a", "0", 1, document=d) for d in documents]
    got = groups_of(texts)
    assert (got if got is None else got.tolist()) == groups


def test_questions_on_one_context_are_a_group():
    questions = [ReadingExample("1", "Who?", c, (), True) for c in ("x", "y", "x")]
    assert groups_of(questions).tolist() == [0, 1, 0]
