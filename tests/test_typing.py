"""A type checker reports the mistakes of an experiment file, and nothing else."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

EXPERIMENT = """
from dicejax.config import Experiment, PretrainedEncoder, Training
from dicejax.formats import ConllFiles
from dicejax.objectives import CrossEntropy, Dice, Focal, Objective, SelfAdjustingDice
from dicejax.optimizers import AdamW
from dicejax.tasks.tagging import Tagging

SMOOTHED = SelfAdjustingDice(alpha=0.01, smooth=1.0)
STEEP = Focal(gamma=3.0)
OF_ENTITIES = Dice(classes=("positive",))
SKIPPED = Dice(absent="skip")
KIND: type[Objective] = Focal
OPTIMIZER = AdamW(learning_rate=5e-5, warmup=0.1, weight_decay=0.01)
TRAINING = Training(epochs=3, batch_size=32, precision="bfloat16")


def get_config() -> Experiment:
    return Experiment(
        name="mine",
        data=ConllFiles(dir="data"),
        task=Tagging(scheme="BIO"),
        encoder=PretrainedEncoder(path="bert-base-cased"),
        objective=SMOOTHED,
        compared=(CrossEntropy(), STEEP, OF_ENTITIES, SKIPPED, KIND()),
        optimizer=OPTIMIZER,
        training=TRAINING,
    )


def plain() -> Experiment:
    return Experiment(name="plain", data=ConllFiles(dir="data"), training=TRAINING)
"""
MISTAKES = {
    "smooth=1.0": "smoooth=1.0",
    "gamma=3.0": 'gamma="3.0"',
    '("positive",)': '["positive"]',
    'absent="skip"': 'absent="skipped"',
    "KIND: type[Objective] = Focal": "KIND: int = Focal",
    "warmup=0.1": "warm_up=0.1",
    "batch_size=32": "batchsize=32",
    'scheme="BIO"': 'scheme="BIOLU"',
    "objective=SMOOTHED": "objective=OPTIMIZER",
    'data=ConllFiles(dir="data"), training': "training",
}


@pytest.mark.slow
def test_mypy_reports_each_mistake_of_an_experiment_file(tmp_path):
    lines = []
    mistaken = EXPERIMENT
    for right, wrong in MISTAKES.items():
        assert EXPERIMENT.count(right) == 1
        lines.append(EXPERIMENT.partition(right)[0].count("\n") + 1)
        mistaken = mistaken.replace(right, wrong)
    # An int cannot be called: only the line that says so is a mistake.
    mistaken = mistaken.replace("KIND()", "CrossEntropy()")
    (tmp_path / "right.py").write_text(EXPERIMENT)
    (tmp_path / "wrong.py").write_text(mistaken)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", "cache"]
    command.append("--no-site-packages")  # no setting has a type of JAX or NumPy
    done = subprocess.run(
        [*command, f"--config-file={ROOT / 'setup.cfg'}", "right.py", "wrong.py"],
        cwd=tmp_path,
        env=os.environ | {"MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    errors = re.findall(r"^(\w+\.py):(\d+): error: ", done.stdout, re.MULTILINE)
    assert sorted((file, int(line)) for file, line in errors) == [
        ("wrong.py", line) for line in sorted(lines)
    ], done.stdout + done.stderr
