"""The third protocol: its search, its commands and what its outcomes are called."""

import collections
import dataclasses
import json
import sys
from pathlib import Path

import jinja2
import numpy as np
import pytest
from sklearn.metrics import f1_score

from dicejax.cli import parse
from dicejax.config import to_json
from dicejax.data.examples import TaggedWords
from dicejax.init import starter
from dicejax.study import figures
from dicejax.study.compare.jobs import ScoredRun
from dicejax.tasks.task import Prediction

from ..documented import ROOT, commands_of
from .conftest import EVIDENCE


def searched_to_the_end(third, dev):
    """Return the best setting of a search whose trials score dev, and its trials."""
    scores = {}
    while True:
        waiting, best = third.searched(scores, third.MINILM)
        if not waiting:
            return best, scores
        scores[waiting[0]] = dev(*waiting[0])  # one at a time, as a worker does


@pytest.mark.parametrize(
    ("rate", "factor"), [(4e-4, 10), (2e-4, 1), (3.2e-3, 30), (1e-4, 300)]
)
def test_a_search_finds_a_peak_inside_the_first_grid_and_beyond_it(
    evidence, rate, factor
):
    third = evidence("third")

    def dev(setting, seed):
        octaves = np.log2(setting.rate / rate) ** 2
        return 0.8 - 0.02 * octaves - 0.03 * abs(np.log(setting.factor / factor))

    best, scores = searched_to_the_end(third, dev)
    assert best == third.Setting(rate, factor)
    assert {seed for setting, seed in scores if setting == best} == {20, 21, 22}
    settings = {setting for setting, _ in scores}
    assert len(settings) <= 16
    assert {*third.MINILM.first} <= {setting.rate for setting in settings}
    # A setting that falls behind with the first seed is tried with no other.
    top = max(dev(setting, 20) for setting in settings)
    behind = [x for x in settings if dev(x, 20) < top - 0.25]
    assert all((setting, 21) not in scores for setting in behind)


def test_a_search_of_runs_that_learn_nothing_ends(evidence):
    third = evidence("third")
    best, scores = searched_to_the_end(third, lambda setting, seed: 0.0)
    assert best == third.Setting(2e-4, 10.0)
    assert len(scores) == 3 * 7  # its neighbours are no better


def test_the_commands_of_the_third_protocol_are_those_of_its_runs(
    evidence, monkeypatch, tmp_path
):
    third = evidence("third")
    monkeypatch.chdir(ROOT)
    commands = commands_of("docs/evidence/protocol-3.md")
    trained = [words for words in commands if words[:2] == ["dicejax", "train"]]
    cells = [cell for cell in third.CELLS if cell.encoder != third.MPNET]
    assert len(trained) == len(cells) == 5
    for words, cell in zip(trained, cells, strict=True):
        documented = parse(words[1:]).settings
        rate = 4e-4 if cell.encoder == third.MINILM else 5e-5
        run = third.Run(cell, "dsc+prior", third.Setting(rate, 10.0), 30, 64)
        folders = tmp_path, Path("DATA"), Path("MODEL")
        experiment = run.job(*folders).experiment
        assert to_json(documented) == to_json(experiment)
        trial = dataclasses.replace(run, length=None, arm="dsc", seed=20)
        plain = trial.job(*folders).experiment
        assert plain.training == dataclasses.replace(
            experiment.training, seed=20, head_bias="zeros"
        )
        assert plain.data == dataclasses.replace(experiment.data, train_sample=20)
        assert plain.optimizer == experiment.optimizer


GAINS = {"ce+prior": 0.0, "dsc": 0.02, "dsc+prior": 0.04, "ce": -0.05}


@pytest.fixture
def of_third(archive, evidence):
    """Return a function that archives made runs of the first cell, and reads them.

    It takes the gain of each arm over `ce+prior`, and arms that fail with some seeds.
    """
    third, module = evidence("third"), evidence("third_tables")
    cell = third.CELLS[0]

    def made(gains, failed=(), updates=64):
        rng = np.random.default_rng(0)
        shared = rng.normal(0, 0.01, 10)
        gold = rng.integers(1, 20, 300)
        lines, runs = [], []
        for arm in third.ARMS:
            keys = [(2e-4, seed) for seed in third.TRIAL_SEEDS]
            for rate, seed in [*keys, (4e-4, 20)]:
                line = {"arm": arm, "rate": rate, "factor": 10.0, "seed": seed}
                lines.append(line | {"dev": 0.7 + gains.get(arm, 0) - (rate > 2e-4)})
        for number, seed in enumerate(third.SEEDS):
            for arm in third.ARMS:
                share = 0.7 + shared[number] + gains.get(arm, 0.0)
                share += rng.normal(0, 0.005)
                if (arm, seed) in failed:
                    share = 0.0
                right = rng.binomial(gold, share)
                counts = np.stack([2 * right, 2 * gold], axis=-1)[:, None]
                result = {
                    "primary_metric": "f1",
                    "test": {"f1": right.sum() / gold.sum()},
                    "steps": updates,
                    "seconds": 60.0,
                    "test_data": 1,
                }
                runs.append(ScoredRun(arm, seed, "", "finished", result, counts))
        whole = archive.Archived(tuple(runs), (), {})
        file = archive.file_of(cell.archive_of(64))
        file.parent.mkdir(exist_ok=True)
        archive.write(whole, file)
        third.write_trials(cell.trials_file, lines)
        module.finished.cache_clear()
        return module

    with pytest.MonkeyPatch.context() as patch:
        one = ([], third.Setting(2e-4, 10.0))
        patch.setattr(third, "searched", lambda scores, encoder: one)
        yield made
    module.finished.cache_clear()


def test_the_third_protocol_compares_the_better_head_of_dice(of_third, archive):
    (each,) = of_third(GAINS).finished()
    assert each.dice == "dsc+prior"
    scores = {
        arm: np.array([run.score for run in runs]) for arm, runs in each.runs.items()
    }
    apart = scores["dsc+prior"] - scores["ce+prior"]
    assert each.primary.mean == pytest.approx(apart.mean())
    assert each.p_value == pytest.approx(15 * each.primary.p_value)
    assert each.called == "dice leads a tuned cross-entropy"
    module = sys.modules["third_tables"]
    with figures.look():
        drawn = figures.rendered(module.draw([each]), "svg").decode()
    assert ">CoNLL-2003, entities<" in drawn
    assert ">64 updates<" in drawn and ">16 updates<" not in drawn
    settings = {"undefined": jinja2.StrictUndefined, "trim_blocks": True}
    pages = jinja2.Environment(loader=jinja2.FileSystemLoader(EVIDENCE), **settings)
    page = pages.get_template("third.md.jinja").render(third=module)
    assert module.of_primaries() in page
    assert "| `dsc+prior` | 0.0002 | 10 | 74.0, 74.0, 74.0 | **74.00** |" in page
    table = module.of_arms(each)
    assert table in page
    assert "| 0.0002 | 10 | 70.0 | **70.0** |\n| 0.0004 | 10 | -30.0 | -30.0 |" in page
    assert "has on dev vs. `ce`: +5.00 (CoNLL-2003, entities)." in page
    assert f"| `ce` | 0.0002, 10 | {100 * scores['ce'].mean():.2f} ± " in table
    # Two arms lack a seed: nothing is shown.
    file = archive.file_of(each.cell.archive_of(64))
    fewer = archive.read(each.cell.archive_of(64))
    kept = [run for run in fewer.runs if (run.loss, run.seed) != ("wce", 39)]
    archive.write(dataclasses.replace(fewer, runs=tuple(kept)), file)
    module.finished.cache_clear()
    assert not module.finished()


@pytest.mark.parametrize(
    ("gain", "failed", "called"),
    [
        (-0.06, (), "a tuned cross-entropy is better"),
        (0.0, (), "no lead above 2 points"),
        (0.05, [("ce+prior", 31)], "unstable: no claim"),
        (
            0.05,
            [("ce+prior", seed) for seed in range(30, 40)],
            "`ce+prior` does not learn there, `dsc` does",
        ),
        (
            0.05,
            [(arm, seed) for arm in ("ce+prior", "dsc") for seed in range(30, 40)],
            "nothing learnt",
        ),
    ],
)
def test_outcomes_are_called_as_the_third_protocol_says(of_third, gain, failed, called):
    (each,) = of_third({"dsc": gain, "dsc+prior": gain - 0.1}, failed).finished()
    assert each.dice == "dsc"
    assert each.called == called
    assert (each.primary is None) == bool(failed)
    page = " ".join((EVIDENCE / "protocol-3.md").read_text().split())
    words = called.replace("`ce+prior`", "the one").replace("`dsc`", "the other")
    names = {"unstable: no claim": "unstable: medians, no interval, no claim"}
    words = words.replace(" there, the other does", " there and the other does")
    assert names.get(words, words) in page


def test_macro_f1_of_tags_is_that_of_scikit_learn(evidence):
    task = evidence("macro_tagging").MacroWordTagging()
    rng, tags = np.random.default_rng(0), ("ADJ", "NOUN", "VERB")
    gold = [TaggedWords(("a",) * 5, tuple(rng.choice(tags, 5)), n) for n in range(20)]
    guesses = [Prediction(tuple(rng.choice((*tags, "X"), 5))) for _ in gold]
    shares = task.example_statistics(gold, guesses, (*tags, "X"))
    assert shares.shape == (20, 3, 2)
    flat = [
        [tag for row in rows for tag in row]
        for rows in (
            [example.labels for example in gold],
            [guess.values for guess in guesses],
        )
    ]
    expected = f1_score(*flat, labels=tags, average="macro")
    above, below = np.moveaxis(shares.sum(0), -1, 0)
    assert np.mean(above / below) == pytest.approx(expected)
    scores = task.score(gold, guesses, (*tags, "X"))
    assert scores.values[task.primary_metric] == pytest.approx(expected)


def test_init_writes_what_the_trials_support(evidence):
    """The archived trials, by the rule of the page and without its code."""
    sums, sets = collections.defaultdict(list), 0
    for file in sorted(EVIDENCE.glob("scores/third/*-minilm-trials.jsonl")):
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        ours = [x for x in lines if (x["arm"], x["seed"]) == ("ce+prior", 20)]
        sets += bool(ours)
        for line in ours:
            sums[line["rate"], line["factor"]].append(line["dev"] or 0.0)
    shared = {setting: sum(x) for setting, x in sums.items() if len(x) == sets}
    assert sets >= 2 and len(shared) >= 6
    assert max(shared, key=shared.get) == starter.SMALL_RATES
