"""Seeds are added for undecided losses alone, within the budget."""

from collections import Counter

import numpy as np
import pytest

from dicejax.errors import InputError
from dicejax.objectives import Dice, Focal, SoftF1
from dicejax.study import compare as comparison
from dicejax.study.compare.jobs import Job, ScoredRun, jobs_of
from dicejax.study.compare.record import Comparison
from dicejax.study.compare.statistics import rows_of
from dicejax.study.compare.until import LOOKS, seconds_of, train_until_decided

from .made_runs import EXPERIMENT, outcome

LOSSES = (Dice(), Focal(), SoftF1())
SKILLS = {"ce": 0.8, "dice": 0.5, "focal": 0.83, "soft_f1": 0.797}


class Runs:
    """Runs with known skill; a run takes a minute."""

    def __init__(self, skill, spread=0.002, dev=()):
        self.skill, self.spread, self.dev = skill, spread, dev
        self.now, self.looks, self.trained = 0.0, [], []

    def jobs(self, seeds):
        every = jobs_of(EXPERIMENT, LOSSES, seeds, "runs")
        return [job for job in every if job.loss in self.skill]

    def new(self, jobs):
        return [(j.loss, j.seed) for j in jobs if (j.loss, j.seed) not in self.trained]

    def train(self, jobs):
        new = self.new(jobs)
        self.trained += new
        self.now += 60 * len(new)

    def outcome(self, job):
        rng = np.random.default_rng([job.seed, len(job.loss)])
        skill = self.skill[job.loss] + rng.normal() * self.spread
        dev = self.dev if job.loss == "ce" else ()
        return outcome(job.loss, job.seed, rng.random(4000) < skill, dev=dev)

    def evaluate(self, jobs: list[Job]):
        rows = rows_of([self.outcome(j) for j in jobs], "ce", looks=self.looks)
        self.looks.append({row.loss: row.against.seeds for row in rows[1:]})
        return Comparison(name="mine", rows=tuple(rows))

    def seeds(self):
        return Counter(loss for loss, _ in self.trained)


def decided(runs, budget=None):
    lines = []
    options = {"least": 3, "budget": budget, "say": lines.append}
    options |= {"unfinished": lambda jobs: len(runs.new(jobs))}
    options |= {"clock": lambda: runs.now}
    last, ended = train_until_decided(runs.jobs, runs.train, runs.evaluate, **options)
    outcomes = {loss: verdict.outcome for loss, verdict in last.verdicts.items()}
    return outcomes, ended, lines


def test_losses_that_are_decided_or_hopeless_get_no_further_seeds():
    runs = Runs(SKILLS)
    outcomes, ended, lines = decided(runs)
    assert outcomes["dice"] == "worse" and outcomes["focal"] == "better"
    seeds = runs.seeds()
    assert seeds["dice"] == LOOKS[0] < seeds["ce"]
    assert seeds["ce"] == max(seeds[loss] for loss in ("dice", "focal", "soft_f1"))
    assert "left to decide" in ended or "last look" in ended
    assert all("dice" not in line for line in lines)


def test_the_end_names_the_losses_that_still_improved():
    skills = {"ce": 0.8, "dice": 0.5, "focal": 0.9, "soft_f1": 0.5}
    for dev, names in (((0.1, 0.4, 0.6), "ce"), ((0.4, 0.6, 0.6), "")):
        _, ended, _ = decided(Runs(skills, dev=dev))
        more = f", but {names} still improved: see the first line" * bool(names)
        assert ended == f"no other loss is left to decide{more}"


def test_a_loss_that_fails_gets_no_further_seeds():
    class Failing(Runs):
        def outcome(self, job):
            if (job.loss, job.seed) == ("dice", 1):
                return ScoredRun("dice", 1, "x", "diverged")
            return super().outcome(job)

    runs = Failing({"ce": 0.8, "dice": 0.9, "focal": 0.9, "soft_f1": 0.5})
    outcomes, _, _ = decided(runs)
    assert outcomes["dice"] == "unstable"
    assert runs.seeds()["dice"] == LOOKS[0]


def test_the_budget_is_kept_and_the_end_says_how_much_an_hour_tells():
    runs = Runs(dict.fromkeys(SKILLS, 0.8), spread=0.02)
    outcomes, ended, _ = decided(runs, budget=25 * 60)
    assert 12 * 60 <= runs.now <= 25 * 60
    assert set(outcomes.values()) <= {"inconclusive", "worse"}
    assert ended.startswith("the budget is spent; in another hour ")
    assert ended.endswith(" points with a power of 80%")
    first = Runs(dict.fromkeys(SKILLS, 0.8), spread=0.02)
    decided(first, budget=60)  # less than the first round takes, which is run
    assert first.seeds() == dict.fromkeys(SKILLS, 3)


def test_nothing_learnt_ends_at_once():
    runs = Runs(dict.fromkeys(SKILLS, 0.0), spread=0.0)
    outcomes, ended, _ = decided(runs)
    assert set(outcomes.values()) == {"nothing learnt"}
    assert ended.startswith("nothing learnt, so further seeds would not help")
    assert runs.seeds() == dict.fromkeys(runs.skill, 3)
    assert decided(Runs({"ce": 0.8}))[1] == "no other loss is left to decide"


@pytest.mark.parametrize("wrong", ["", "2", "h", "2 h", "1d", "0m", "-3m", "1h x"])
def test_a_budget_of_another_form_is_refused(wrong):
    with pytest.raises(InputError, match="--budget is"):
        seconds_of(wrong)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"budget": "2h"}, "add it"),
        ({"until": "decided", "shard": "1/2"}, "leave out --shard"),
        ({"until": "decided", "overwrite": True}, "leave out --shard, --overwrite"),
    ],
)
def test_settings_that_contradict_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        comparison.compare(EXPERIMENT, **settings)
