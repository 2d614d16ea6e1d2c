"""Documents of the test set are the items that intervals of runs are over."""

import dataclasses
import functools
import json
import math

import numpy as np
import pytest

from dicejax import formats
from dicejax.data.examples import LabelledText, ReadingExample, groups_of
from dicejax.errors import InputError
from dicejax.objectives import CrossEntropy, Focal
from dicejax.study import compare as comparison
from dicejax.tasks import Classification
from dicejax.tasks.judged import at_constraint
from dicejax.tasks.scoring import count
from dicejax.training.outcome import choose_threshold

from .made_runs import EXPERIMENT, SENTENCES, made, record_of, run_of

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
    against = record_of(path)["losses"]["focal"]["against_baseline"]
    assert against["crossed"]["sentences"] == DOCUMENTS


def test_runs_with_other_documents_are_refused(folder):
    path, jobs, groups = folder
    run = run_of(jobs[-1])
    run.write_statistics(run.example_statistics(), groups=groups[::-1])
    with pytest.raises(InputError, match="the documents of the test examples differ"):
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
READ = formats.ConllFiles.read_file
TOKENS = "".join(
    json.dumps({"doc_id": n, "tokens": ["Ada"], "ner_tags": ["B-PER"]}) + "\n"
    for n in (7, 7, 9)
)
SPANS = "".join(
    json.dumps({"document": n, "text": "Ada", "entities": []}) + "\n" for n in "aab"
)


def read_table(path):
    return formats.TextFiles(dir="", first="text", label="label").read(path, None)


TABLE = "text,label,doc_id\nfine,a,x\ndull,b,x\nodd,a,y\n"


@pytest.mark.parametrize(
    ("name", "text", "read"),
    [
        ("a.txt", CONLL, READ),
        (
            "a.txt",
            CONLL,
            functools.partial(READ, layout="labels"),
        ),
        (
            "a.conllu",
            TREES,
            functools.partial(READ, layout="conllu"),
        ),
        ("a.jsonl", TOKENS, formats.JsonSentences.read_file),
        ("a.jsonl", SPANS, formats.JsonSentences.read_file),
        ("a.csv", TABLE, read_table),
    ],
)
def test_files_say_which_examples_are_of_a_document(tmp_path, name, text, read):
    (tmp_path / name).write_text(text)
    assert groups_of(read(tmp_path / name)).tolist() == [0, 0, 1]


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


@pytest.mark.parametrize("text", ["recall:0.8", "fpr:0.2"])
def test_losses_are_compared_where_the_constraint_puts_the_threshold(tmp_path, text):
    """From scores to the verdict: precision at recall 0.8, or recall at an fpr."""
    task = Classification(threshold=text)
    experiment = dataclasses.replace(EXPERIMENT, task=task)
    objectives = (CrossEntropy(), Focal())
    jobs = made(tmp_path, objectives, 4, experiment=experiment)
    rng, labels = np.random.default_rng(2), ("fine", "spam")
    gold = {split: rng.random(SENTENCES) < 0.4 for split in ("dev", "test")}
    documents = np.arange(SENTENCES) // 2
    examples = {
        split: [
            LabelledText("a", None, labels[int(y)], str(n), n, document=str(n // 2))
            for n, y in enumerate(column)
        ]
        for split, column in gold.items()
    }
    by_hand_scores, counts = {}, {}
    for job in jobs:
        skill, both = (2 if job.loss == "ce" else 4), {}
        for split, column in gold.items():
            odds = rng.normal(size=SENTENCES) + skill * (column - 0.5)
            chances = 1 / (1 + np.exp(-odds))
            both[split] = [{"fine": 1 - p, "spam": p} for p in chances]
        pairs = {split: (examples[split], both[split]) for split in both}
        chosen, fields, arrays = choose_threshold(
            task, pairs["dev"], pairs["test"], labels, 1
        )
        run = run_of(job)
        run.write_statistics(run.example_statistics(), groups=documents, **arrays)
        run.write_result({**run.result(), **fields})
        accepted = np.array([x["spam"] for x in both["test"]]) >= chosen.threshold
        among = accepted if text.startswith("recall") else gold["test"]
        hits = accepted & gold["test"]
        by_hand_scores[job.loss, job.seed] = hits.sum() / among.sum()
        counts[job.loss, job.seed] = np.stack([hits, among], -1).astype(float)
        share = fields["constraint_on_test"]["spam"]
        assert share["units"] == "documents" and fields["at_constraint"]["name"] == (
            "precision_at_recall_0.8" if "recall" in text else "recall_at_fpr_0.2"
        )
    baseline, focal = comparison.evaluate_runs(jobs, str(tmp_path)).rows
    name = fields["at_constraint"]["name"]
    assert record_of(tmp_path)["primary_metric"] == name
    for row in (baseline, focal):
        expected = [by_hand_scores[row.loss, seed] for seed in range(4)]
        assert row.scores(name) == pytest.approx(expected)
    differences = [
        by_hand_scores["focal", seed] - by_hand_scores["ce", seed] for seed in range(4)
    ]
    assert focal.against.differences == pytest.approx(differences)
    # The errors of the crossed model over documents, as of F1 above.
    numbers, z = np.unique(documents), np.zeros((4, len(np.unique(documents))))
    for (loss, seed), each in counts.items():
        without = np.array([f1_of(each[documents != g]) for g in numbers])
        sign = -1 if loss == "ce" else 1
        z[seed] += sign * (len(numbers) - 1) * (without.mean() - without)
    crossed = focal.against.crossed
    assert crossed.mean == pytest.approx(np.mean(differences))
    error = math.sqrt(np.sum(z.mean(0) ** 2) / (len(numbers) - 1) / len(numbers))
    assert crossed.same_seeds_error == pytest.approx(error)
    # Without a promise there is no operating point, and nothing counts as right.
    lost = dataclasses.replace(chosen, unattained={"spam": "why"})
    decided = [task.decide(each, chosen.threshold) for each in both["test"]]
    pairs = zip(examples["test"], decided, strict=True)
    shares = at_constraint(lost, [count(task, *pair, ["spam"]) for pair in pairs])
    assert shares[..., 0].sum() == 0 and shares[..., 1].sum() == among.sum()
