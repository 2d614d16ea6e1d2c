"""With `--resample` each seed has a training sample, and trials, of its own."""

import dataclasses
import json

import numpy as np
import pytest
from etils import epath

from dicejax import config
from dicejax.errors import InputError
from dicejax.formats import ConllFiles, TextFiles
from dicejax.io.files import write_checked
from dicejax.objectives import Dice, Focal
from dicejax.study import compare as comparison
from dicejax.study.compare import tuning
from dicejax.study.compare.finding import jobs_from
from dicejax.study.compare.jobs import require_one_label_set
from dicejax.tasks import Classification

from .made_runs import EXPERIMENT, write_splits
from .made_runs import write as write_run
from .test_tuning import Training

PRETRAINED = config.PretrainedEncoder(path="none")
CLASSES = "\n".join(f"{label} text {n} {label}" for n in range(60) for label in "ab")


def resampled(tmp_path, text=CLASSES, seeds=3, positive="b", **settings):
    data = TextFiles(layout="label-first", dir=write_splits(tmp_path, text), **settings)
    task = Classification(positive=positive)
    experiment = config.Experiment(name="x", data=data, encoder=PRETRAINED, task=task)
    losses, out = (Dice(),), str(tmp_path)
    return comparison.jobs_of(experiment, losses, seeds, out, resample=True)


def test_each_seed_trains_on_a_sample_of_its_own(tmp_path):
    jobs = resampled(tmp_path, max_train=20)
    samples = {(j.loss, j.seed): j.experiment.data.load() for j in jobs}
    texts = {key: corpus.train for key, corpus in samples.items()}
    for seed in range(3):
        assert texts["ce", seed] == texts["dice", seed]
    assert texts["ce", 0] != texts["ce", 1] != texts["ce", 2]
    assert len({corpus.test for corpus in samples.values()}) == 1
    assert len({corpus.dev for corpus in samples.values()}) == 1
    require_one_label_set([job.experiment for job in jobs])
    unnamed = resampled(tmp_path, max_train=20, positive=None)
    with pytest.raises(
        InputError, match="not all samples have the same rarer class; name"
    ):
        require_one_label_set([job.experiment for job in unnamed])
    # Reported from their folders, they are one comparison.
    for job in jobs:
        text = config.to_json(job.experiment)
        write_checked(epath.Path(job.folder), "experiment.json", text)
    assert jobs_from([str(tmp_path)]) == sorted(jobs, key=lambda j: (j.loss, j.seed))


@pytest.fixture
def training(monkeypatch):
    """Replace the training of trials and of runs; there is no encoder."""
    made = Training()
    monkeypatch.setattr(comparison, "require_fit", lambda jobs, **_: None)
    monkeypatch.setattr(tuning, "train", made)

    def train_all(jobs, *_, **__):
        for job in jobs:
            if not epath.Path(job.folder).exists():
                write_run(job, np.random.default_rng(job.seed), 0.7)

    monkeypatch.setattr(comparison, "train_all", train_all)
    return made


SENTENCE = "Ann{n} B-PER\nin O\nRome B-LOC\n"


def compare(folder, tmp_path, **options):
    text = "\n".join(SENTENCE.format(n=n) for n in range(60))
    data = ConllFiles(dir=write_splits(tmp_path, text), max_train=40)
    experiment = config.Experiment(name="x", data=data, encoder=PRETRAINED)
    options = {"seeds": 3, "tune": 4, "baselines": False, "resample": True} | options
    out = str(tmp_path / folder)
    return comparison.compare(experiment, (Focal(),), out=out, **options)


def names(comparison):
    return [*comparison.tuning["losses"]]


def test_each_seed_is_tuned_on_a_sample_of_its_own(tmp_path, training):
    first = compare("out", tmp_path)
    pairs = [(seed, loss) for seed in range(3) for loss in ("ce", "focal")]
    assert names(first) == [f"{loss} seed {seed}" for seed, loss in pairs]
    seeds = [tuning.SEED + seed for seed in range(3) for _ in range(2 * 4)]
    assert [made.training.seed for made in training.made] == seeds
    assert [made.data.train_sample for made in training.made] == seeds
    written = json.loads((tmp_path / "out/tuning.json").read_text())["losses"]
    assert list(written) == names(first)
    # Each run has the settings that its own trials found best.
    runs = {(job.loss, job.seed): job for job in jobs_from([str(tmp_path / "out")])}
    assert len(runs) == 6
    for (_, seed), job in runs.items():
        run = job.experiment
        trials = [x for x in training.made if x.training.seed == tuning.SEED + seed]
        trials = [x for x in trials if type(x.objective) is type(run.objective)]
        assert len(trials) == 4
        best = max(trials, key=Training.score)
        assert run.objective == best.objective
        assert run.optimizer == best.optimizer
        assert run.training.seed == run.data.train_sample == seed
    assert len({runs["ce", seed].experiment.optimizer for seed in range(3)}) == 3
    again = comparison.compare_runs([str(tmp_path / "out")])
    assert again.verdicts == first.verdicts
    assert "focal seed 2" in (tmp_path / "out/report.md").read_text()


def assert_same_tuning(folder):
    files = [folder / out / "tuning.json" for out in ("whole", "parts")]
    assert files[0].read_text() == files[1].read_text()


def test_shards_tune_their_own_seeds_and_the_last_one_reports(tmp_path, training):
    whole = compare("whole", tmp_path)
    trials = len(training.made)
    for part in (1, 2, 3):
        assert not (tmp_path / "parts/tuning.json").exists()
        last = compare("parts", tmp_path, shard=f"{part}/3")
        assert len(training.made) == trials + part * trials // 3
        assert last.unfinished == 6 - 2 * part
    assert_same_tuning(tmp_path)
    assert last.tuning == whole.tuning and last.verdicts == whole.verdicts


def test_shards_divide_the_losses_to_tune_and_the_last_one_writes(tmp_path, training):
    options = {"resample": False, "seeds": 0}
    whole = compare("whole", tmp_path, **options)
    trials = training.made.copy()
    ce, focal = trials[:4], trials[4:]
    first = compare("parts", tmp_path, shard="2/2", **options)
    assert training.made == [*trials, *focal]
    assert first.unfinished == 4 and names(first) == ["focal"]
    assert not (tmp_path / "parts/tuning.json").exists()
    last = compare("parts", tmp_path, shard="1/2", **options)
    assert training.made == [*trials, *focal, *ce]
    assert last == dataclasses.replace(whole, folder=last.folder)
    # Runs of shards leave the tuning as it is; those of 2/3 begin with focal loss.
    runs = compare("parts", tmp_path, resample=False, shard="2/3")
    assert runs.unfinished == 4 and names(runs) == ["ce", "focal"]
    assert_same_tuning(tmp_path)
    # Each overwrites its own trials alone; a shard without any has nothing to do.
    compare("parts", tmp_path, shard="1/2", overwrite=True, **options)
    compare("parts", tmp_path, shard="3/3", overwrite=True, **options)
    assert training.made == [*trials, *focal, *ce, *ce]


def test_seeds_that_are_added_are_tuned_too(tmp_path, training, monkeypatch):
    monkeypatch.setattr("dicejax.study.compare.until.LOOKS", (3, 5))
    first = compare("out", tmp_path, until="decided")
    seeds = {int(name[-1]) for name in names(first)}
    assert seeds >= {0, 1, 2} and len(training.made) == 4 * len(names(first))
    more = compare("out", tmp_path, seeds=max(seeds) + 2)
    assert len(names(more)) > len(names(first))
    assert len(training.made) == 4 * len(names(more))  # no trial twice
    assert first.tuning["losses"].items() <= more.tuning["losses"].items()


VOCABULARY = dataclasses.replace(EXPERIMENT, data=ConllFiles(dir="x", max_train=5))


def test_what_cannot_be_resampled_is_refused_before_training(tmp_path, training):
    rare, out = CLASSES + "\nc text c", str(tmp_path / "out")
    (first, *_) = jobs = resampled(tmp_path, rare, 30, None, max_train=60)
    with pytest.raises(InputError, match="do not both have the label 'c'; raise"):
        require_one_label_set([job.experiment for job in jobs])
    for experiment, message in (
        (EXPERIMENT, "trains on all of its data; add --data.max_train N"),
        (VOCABULARY, "learns its vocabulary from the sample"),
        (first.experiment, r"samples \d+ and \d+ do not both have"),
    ):
        with pytest.raises(InputError, match=message):
            comparison.compare(experiment, resample=True, tune=2, out=out)
    with pytest.raises(InputError, match="--seeds 0 with --resample: each seed has"):
        compare("out", tmp_path, seeds=0)
    assert not training.made and not (tmp_path / "out").exists()
