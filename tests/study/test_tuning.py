"""Each loss gets the same trials, the best on dev is chosen, test is unused."""

import contextlib
import dataclasses
import json
import math
from concurrent.futures import ThreadPoolExecutor

import pytest
from etils import epath

from dicejax import config
from dicejax.data.synthetic import SyntheticNER
from dicejax.errors import Diverged, InputError
from dicejax.io.files import write_checked
from dicejax.objectives import CrossEntropy, Focal, Tversky
from dicejax.optimizers import AdamW
from dicejax.study import compare as comparison
from dicejax.study.compare import spaces, tuning
from dicejax.tasks import Classification
from dicejax.training.progress import TrainingProgress
from dicejax.training.run_folder import CHECKPOINTS, Run
from dicejax.training.run_lock import run_lock
from dicejax.training.setup import Setup

from ..small_project import fails
from .made_runs import record_of, run_of, write_setup

EXPERIMENT = config.Experiment(
    name="some", data=SyntheticNER(), optimizer=AdamW(learning_rate=1e-3)
)
QUIET = TrainingProgress(quiet=True)


def jobs(folder, experiment=EXPERIMENT):
    losses = (Focal(), Tversky())
    return comparison.jobs_of(experiment, losses, 2, str(folder))


def tune(folder, trials=8, experiment=EXPERIMENT, **options):
    made = jobs(folder, experiment)
    return tuning.tune(made, trials, str(folder), QUIET, **options)


RATE = "optimizer.learning_rate"


class Training:
    """Replace training by a score that is a function of the settings.

    The optimum is a learning rate of 2e-3, a fortieth of it for each further seed, and,
    for focal loss, gamma 4.
    """

    def __init__(self):
        self.made, self.killed_at = [], None
        self.diverges = lambda experiment: False

    @staticmethod
    def score(experiment):
        rate = experiment.optimizer.learning_rate
        best = 2e-3 / 40 ** (experiment.training.seed % tuning.SEED)
        off = abs(math.log(rate / best)) / 10
        if isinstance(experiment.objective, Focal):
            off += abs(experiment.objective.gamma - 4) / 10
        return 1 - off

    def __call__(self, experiment, out, *, overwrite, progress, score_test):
        assert not score_test
        run = Run.create(out, experiment, overwrite=overwrite)
        if self.killed_at == len(self.made):
            raise KeyboardInterrupt
        self.made.append(experiment)
        assert not run.continues
        write_setup(run, experiment)
        (run.path / CHECKPOINTS).mkdir(exist_ok=True)
        if self.diverges(experiment):
            run.write_diverged("no finite loss")
            raise Diverged("no finite loss")
        run.write_result({"best_dev_score": self.score(experiment)})


@pytest.fixture
def training(monkeypatch):
    made = Training()
    monkeypatch.setattr(tuning, "train", made)
    return made


def test_each_loss_gets_as_many_trials_and_the_first_as_given(tmp_path, training):
    results = tune(tmp_path, 5)["losses"]
    assert list(results) == ["ce", "focal", "tversky"]
    kinds = [type(made.objective) for made in training.made]
    assert kinds == [CrossEntropy] * 5 + [Focal] * 5 + [Tversky] * 5
    assert {made.training.seed for made in training.made} == {tuning.SEED}
    assert tuning.SEED not in {job.seed for job in jobs(tmp_path)}
    firsts = training.made[::5]
    assert [x.objective for x in firsts] == [CrossEntropy(), Focal(), Tversky()]
    assert {x.optimizer for x in firsts} == {EXPERIMENT.optimizer}
    assert {*results["ce"]["trials"][1]["values"]} == {RATE}
    for trial in results["tversky"]["trials"]:
        shares = [trial["values"][f"objective.{name}"] for name in ("alpha", "beta")]
        assert sum(shares) == pytest.approx(1)
    rates = {made.optimizer.learning_rate for made in training.made}
    assert min(rates) >= 2e-4 and max(rates) <= 5e-3
    for tuned in results.values():
        assert len({trial["values"][RATE] for trial in tuned["trials"]}) == 5
    # Nothing but what is tuned differs between trials.
    trials = [trial for tuned in results.values() for trial in tuned["trials"]]
    for trial, made in zip(trials, training.made, strict=True):
        changes = config.differences(training.made[0], made)
        assert all(text.startswith((f"{RATE} ", "objective")) for text in changes)
        assert made == spaces.with_values(made, trial["values"])


def test_the_chosen_trial_is_the_best_on_dev_and_the_runs_take_it(tmp_path, training):
    content = tune(tmp_path, 12)
    assert content == json.loads((tmp_path / "tuning.json").read_text())
    assert (content["trials"], content["seed"]) == (12, 1_000_000)
    assert (content["split"], content["primary_metric"]) == ("dev", "f1")
    varied = content["losses"]["focal"]["varied"]["objective.gamma"]
    assert varied == {"low": 0.0, "high": 5.0, "scale": "linear"}
    before = jobs(tmp_path)
    experiment_of = {job.loss: job.experiment for job in reversed(before)}
    for loss, tuned in content["losses"].items():
        settings = [trial["values"] for trial in tuned["trials"]]
        experiments = [spaces.with_values(experiment_of[loss], x) for x in settings]
        scores = [Training.score(experiment) for experiment in experiments]
        assert [trial["dev"] for trial in tuned["trials"]] == scores
        assert scores[tuned["chosen"]] == max(scores) >= scores[0]
        best = experiments[tuned["chosen"]]
        for job in tuning.apply_settings(before, {"losses": {loss: tuned}}):
            if job.loss == loss:
                assert job.experiment.objective == best.objective
                assert job.experiment.optimizer == best.optimizer
                assert job.seed in (0, 1)
    # The sampler learns: twelve trials come nearer than the given settings.
    trials, chosen = (content["losses"]["focal"][x] for x in ("trials", "chosen"))
    assert trials[chosen]["dev"] > trials[0]["dev"] + 0.1
    # The names of rows and their folders stay.
    after = tuning.apply_settings(before, content)
    for job, changed in zip(before, after, strict=True):
        assert (job.loss, job.folder) == (changed.loss, changed.folder)
    assert tuning.apply_settings(before, None) == before


def test_the_first_trials_spread_over_the_space_alike_for_all_losses(
    tmp_path, training
):
    trials = {k: x["trials"] for k, x in tune(tmp_path, 4)["losses"].items()}
    rates = {k: [t["values"][RATE] for t in v] for k, v in trials.items()}
    assert rates["ce"] == rates["focal"] == rates["tversky"]
    # Van der Corput's sequence in base 2, to the three digits of a setting, as shares
    # of the range on its log scale.
    shares = [math.log(rate / 2e-4, 25) for rate in rates["ce"]]
    assert shares == pytest.approx([1 / 2, 1 / 4, 3 / 4, 1 / 8], abs=2e-3)
    # In base 3, of a range from 0 to 5.
    gamma = [t["values"]["objective.gamma"] / 5 for t in trials["focal"][1:]]
    assert gamma == pytest.approx([2 / 3, 1 / 9, 4 / 9], abs=2e-3)


def test_the_same_command_makes_the_same_trials(tmp_path, training):
    assert tune(tmp_path / "a") == tune(tmp_path / "b")
    half = len(training.made) // 2
    assert training.made[:half] == training.made[half:]
    # More trials begin with the same ones.
    more, fewer = tune(tmp_path / "c", 9)["losses"], tune(tmp_path / "d", 5)["losses"]
    assert all(more[x]["trials"][:5] == fewer[x]["trials"] for x in more | fewer)


@pytest.mark.parametrize("killed_at", [0, 1, 7, 8, 13, 23])
def test_a_tuning_that_was_killed_goes_on_with_the_same_trials(
    tmp_path, training, killed_at
):
    whole = tune(tmp_path / "whole")
    trials = training.made.copy()
    training.made.clear()
    training.killed_at = killed_at
    with pytest.raises(KeyboardInterrupt):
        tune(tmp_path / "cut")
    assert not (tmp_path / "cut/tuning.json").exists()
    training.killed_at = None
    assert tune(tmp_path / "cut") == whole
    assert training.made == trials  # none of them twice
    files = [(tmp_path / out / "tuning.json").read_text() for out in ("whole", "cut")]
    assert files[0] == files[1]
    assert tune(tmp_path / "cut") == whole  # and once more, of which nothing is made
    assert training.made == trials
    assert not list((tmp_path / "cut").rglob("checkpoints"))


def test_trials_are_read_while_another_process_holds_their_locks(tmp_path, training):
    results = tune(tmp_path)
    folders = [file.parent for file in tmp_path.rglob("result.json")]
    with contextlib.ExitStack() as locks, ThreadPoolExecutor() as pool:
        for folder in folders:
            locks.enter_context(run_lock(epath.Path(folder)))
        (folders[0] / "checkpoints").mkdir()  # being deleted
        assert pool.submit(tune, tmp_path).result() == results
    assert len(folders) == len(training.made) == 24


def test_a_trial_that_diverges_counts_and_is_not_chosen(tmp_path, training):
    training.diverges = lambda experiment: (
        experiment.optimizer.learning_rate > 1.5e-3
        or isinstance(experiment.objective, Tversky)
    )
    results = tune(tmp_path, 8)
    assert len(training.made) == 24
    trials, chosen = (results["losses"]["ce"][x] for x in ("trials", "chosen"))
    diverged = [trial["status"] == "diverged" for trial in trials]
    rates = [trial["values"][RATE] for trial in trials]
    assert diverged == [rate > 1.5e-3 for rate in rates] and any(diverged)
    scores = [trial["dev"] or 0 for trial in trials]
    assert trials[chosen]["dev"] == max(scores) > 0
    # Where all diverge, the given settings are chosen.
    assert results["losses"]["tversky"]["chosen"] == 0
    head, of_ce, _, of_tversky = tuning.remarks(results)
    assert head == "chosen on dev, of 8 trials for each loss:"
    assert of_ce.endswith(f"; {sum(diverged)} of 8 diverged")
    assert of_tversky.endswith("as given: all 8 trials diverged")
    # They are not tried again.
    assert tune(tmp_path, 8) == results
    assert len(training.made) == 24
    content = json.loads((tmp_path / "tuning.json").read_text())
    trials = content["losses"]["tversky"]["trials"]
    assert [trial["status"] for trial in trials] == ["diverged"] * 8


def test_remarks_show_what_was_chosen_vs_what_was_given():
    first = {"dev": 0.81, "values": {RATE: 1e-3, "objective.smooth": 1.0}}
    better = {"dev": 0.832, "values": {RATE: 1e-3, "objective.smooth": 0.02}}
    losses = {"dice seed 0": {"trials": [first, better, first], "chosen": 1}}
    losses["dice seed 1"] = {"trials": [first, first], "chosen": 0}
    record = {"trials": 3, "primary_metric": "f1", "losses": losses}
    assert tuning.remarks(record) == [
        "chosen on dev, of 3 trials for each loss and seed:",
        "  dice seed 0: learning_rate 0.001, smooth 0.02: dev F1 83.20, as given 81.00",
        "  dice seed 1: learning_rate 0.001, smooth 1, as given: dev F1 81.00",
    ]


def test_shards_take_a_finished_tuning_and_make_no_trial(tmp_path, training):
    with pytest.raises(InputError, match=r"--tune 8 --seeds 0 first"):
        tune(tmp_path, may_train=False)
    assert not training.made
    whole = tune(tmp_path)
    made = len(training.made)
    assert tune(tmp_path, may_train=False, overwrite=True) == whole
    assert len(training.made) == made
    with pytest.raises(InputError, match="ce has not finished 9 trials"):
        tune(tmp_path, 9, may_train=False)


def test_what_cannot_be_tuned_is_refused_before_any_training(tmp_path, training):
    def refused(message, *arguments):
        before = len(training.made)
        with pytest.raises(InputError, match=message):
            tune(tmp_path, *arguments)
        assert len(training.made) == before

    refused(r"--tune is -1; want trials per loss", -1)
    task = Classification(threshold="recall:0.9")
    promising = dataclasses.replace(EXPERIMENT, task=task)
    refused("promises less than --task.threshold says", 8, promising)
    late = dataclasses.replace(EXPERIMENT.training, seed=tuning.SEED - 1)
    late = dataclasses.replace(EXPERIMENT, training=late)
    refused("seeds from 1000000 on are those of trials", 2, late)
    # Runs from before the tuning; afterwards those next to it have its settings.
    (job,) = (j for j in jobs(tmp_path) if j.loss == "focal" and j.seed == 1)
    run_of(job).path.mkdir(parents=True)
    refused(r"focal/seed-1: was trained before")
    tune(tmp_path, overwrite=True)
    assert len(training.made) == 24
    tune(tmp_path)
    other = dataclasses.replace(EXPERIMENT, optimizer=AdamW(learning_rate=2e-3))
    refused(r"optimizer.learning_rate was 0.001", 9, other)
    trial = epath.Path(tmp_path / "tuning/focal/trial-3")
    content = json.loads((trial / "experiment.json").read_text())
    content["objective"]["gamma"] = 0.123
    write_checked(trial, "experiment.json", json.dumps(content))
    refused(r"trial-3: .*objective.gamma was 0.123")
    tune(tmp_path, 4, other, overwrite=True)
    assert len(training.made) == 24 + 12
    # Settings of the experiment are not mixed with tuned ones.
    refused("the losses of this folder were tuned", 0)
    assert tune(tmp_path, 0, overwrite=True) is None
    assert not (tmp_path / "tuning.json").exists()
    assert tune(tmp_path, 0) is None and tuning.remarks(None) == []


@pytest.mark.exhaustive  # tests/test_own_loss.py tunes by default
def test_a_tuned_comparison_from_end_to_end(project, capsys, monkeypatch):
    from dicejax.cli import run

    splits, decode = [], Setup.decode

    def note(setup, params, split, *args, **options):
        splits.append((setup.experiment.training.seed, split))
        return decode(setup, params, split, *args, **options)

    monkeypatch.setattr(Setup, "decode", note)
    argv = ["compare", "mine.py", "--losses", "dice", "--training.epochs", "2"]
    argv += ["--no-baselines", "--tune", "2"]
    assert run([*argv, "--seeds", "0"]) == 0
    assert "chosen on dev, of 2 trials for each loss:" in capsys.readouterr().out
    assert {split for _, split in splits} == {"dev"}
    out = project / "runs/small"
    assert not list(out.rglob("checkpoints")) and not list(out.rglob("test_*"))
    names = {folder.name for folder in out.iterdir()}
    assert names == {"tuning", "tuning.json", "SHA256SUMS"}

    assert run([*argv, "--seeds", "1", "--shard", "1/1"]) == 0
    printed = capsys.readouterr().out
    assert all(seed != tuning.SEED for seed, split in splits if split == "test")
    content = record_of(out)
    assert content["tuning"] == json.loads((out / "tuning.json").read_text())
    for loss, tuned in content["tuning"]["losses"].items():
        for number, trial in enumerate(tuned["trials"]):
            log = out / f"tuning/{loss}/trial-{number}/metrics.jsonl"
            lines = map(json.loads, log.read_text().splitlines())
            scores = [line["dev/f1"] for line in lines if "dev/f1" in line]
            assert len(scores) == 2 and trial["dev"] == pytest.approx(max(scores))
        best = tuned["trials"][tuned["chosen"]]["values"][RATE]
        ran = config.from_json((out / loss / "seed-0/experiment.json").read_text())
        assert ran.optimizer.learning_rate == best
        assert f"  {loss}: learning_rate {best:g}" in printed
    same = ["train", "mine.py", "--out", str(out / "tuning/ce/trial-0")]
    same += ["--training.seed", "1000000", "--training.epochs", "2"]
    fails(capsys, same, "a trial of tuning, never scored on test")
