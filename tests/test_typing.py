"""Type checkers report the mistakes of an experiment and of losses, nothing else.

Nor do they report anything in the Python of README.md and the pages of the site.
"""

import doctest
import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from .documented import PAGES, blocks

ROOT = Path(__file__).parents[1]

EXPERIMENT = """
from dicejax.config import Experiment, PretrainedEncoder, Training
from dicejax.formats import ConllFiles
from dicejax.objectives import CrossEntropy, Dice, Focal, Objective, SelfAdjustingDice
from dicejax.optimizers import AdamW
from dicejax.tasks.tagging import Tagging

SMOOTHED = SelfAdjustingDice(alpha=0.01, smooth=1.0)
STEEP = Focal(gamma=3.0)
OF_ENTITIES = Dice(exclude_class=("O",))
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
    '("O",)': '["O"]',
    'absent="skip"': 'absent="skipped"',
    "KIND: type[Objective] = Focal": "KIND: int = Focal",
    "warmup=0.1": "warm_up=0.1",
    "batch_size=32": "batchsize=32",
    'scheme="BIO"': 'scheme="BIOLU"',
    "objective=SMOOTHED": "objective=OPTIMIZER",
    'data=ConllFiles(dir="data"), training': "training",
}

LOSSES = """
import jax.numpy as jnp
from jax import Array

from dicejax import losses
from dicejax.config import Experiment
from dicejax.objectives import NON_NEGATIVE, CrossEntropy, Objective, loss
from dicejax.study.compare import Comparison, compare

FLOOR = NON_NEGATIVE.tuned(0.01, 0.5, scale="log")


@loss(kind="pointwise", floor=FLOOR)
def floored(
    logits: Array,
    labels: Array,
    *,
    where: Array | None = None,
    multi_label: bool = False,
    floor: float | Array = 0.05,
) -> Array:
    entropy = losses.cross_entropy(logits, labels, where=where, multi_label=multi_label)
    return jnp.maximum(entropy - floor, 0)


@loss("worst", kind="set")
def worst_class(
    logits: Array, labels: Array, *, where: Array | None = None, smooth: float = 1e-5
) -> Array:
    return losses.dice(logits, labels, where=where, smooth=smooth).max()


@loss("even", kind="batch")
def evened(logits: Array, labels: Array) -> Array:
    return losses.focal(logits, labels, gamma=2.0)


logits, labels = jnp.zeros((2, 3)), jnp.zeros(2, int)
losses.focal(logits, labels, gamma=2.0)
losses.dice(logits, labels, axis=None)
losses.dice(logits, labels, smooth=1.0)
losses.soft_f1(logits, labels, average="micro", exclude_class=0)
losses.ghm(logits, labels, losses.ghm_state(), momentum=0.5)[1].counts.sum()
losses.dice_from_counts(losses.overlap_counts(logits, labels), absent="skip").sum()
VALUE: Array = floored(logits, labels, floor=0.1)
OWN: tuple[Objective, ...] = (
    floored.objective(),
    floored.objective(floor=0.2),
    floored.objective(output="tags", floor=0.2),
    worst_class.objective(over="sequence"),
)


def compared(experiment: Experiment) -> Comparison:
    return compare(experiment, ["ce", "dice"])
"""
MISTAKES_OF_LOSSES = {
    'scale="log"': 'scale="logarithmic"',
    'kind="pointwise"': 'kind="pointwize"',
    'kind="set"': 'kind="Set"',
    "(0.01, 0.5": '("0.01", 0.5',
    "losses.focal(logits, labels, gamma=2.0)\nlosses": "losses.focal(logits)\nlosses",
    "losses.dice(logits, labels, axis=None)": "losses.dice(labels, axs=None)",
    "smooth=1.0": "smoooth=1.0",
    'average="micro"': 'average="weighted"',
    "momentum=0.5)[1].counts": "momentum=0.5)[1].count",
    'absent="skip"': 'absent="skipped"',
    "objective(floor=0.2)": "objective(flor=0.2)",
    'over="sequence"': 'over="sentence"',
    '["ce", "dice"]': '"ce"',
}
CHECKERS = {
    # No type of JAX or NumPy decides a line, and to read them takes a minute.
    "mypy": ["--strict", "--no-site-packages", f"--config-file={ROOT / 'setup.cfg'}"],
    "basedpyright": ["--level", "error"],
}


# What a reader types in need not be annotated.
SHORT = (
    "# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, "
    "allow-subclassing-any\n"
)


def python_of_pages() -> dict[str, str]:
    """Return the Python of each page, and that of each of its files, by module."""
    texts = defaultdict(lambda: SHORT)
    for page in PAGES:
        for block in blocks(page):
            if block.language == "python":
                is_session = ">>>" in block.text
                text = block.text
                text = doctest.script_from_examples(text) if is_session else text
                title = block.title or ""
                name = re.sub(r"\W", "_", f"{page} {title.removesuffix('.py')}")
                texts[f"{name}.py"] += text
    return texts


@pytest.mark.slow
@pytest.mark.parametrize("checker", CHECKERS)
def test_a_type_checker_reports_each_mistake(checker, tmp_path):
    """Of experiments and of losses at once: the package is read once for both."""
    pytest.importorskip(checker, reason=f"{checker} is not installed")
    expected, files = set(), []
    for name, right, mistakes in (
        ("experiment", EXPERIMENT, MISTAKES),
        ("losses", LOSSES, MISTAKES_OF_LOSSES),
    ):
        mistaken, wrong_file = right, f"wrong_{name}.py"
        for correct, wrong in mistakes.items():
            assert right.count(correct) == 1, correct
            expected.add((wrong_file, right.partition(correct)[0].count("\n") + 1))
            mistaken = mistaken.replace(correct, wrong)
        # An int cannot be called: only the line that says so is a mistake.
        mistaken = mistaken.replace("KIND()", "CrossEntropy()")
        (tmp_path / f"right_{name}.py").write_text(right)
        (tmp_path / wrong_file).write_text(mistaken)
        files += [f"right_{name}.py", wrong_file]
    for name, text in python_of_pages().items():
        (tmp_path / name).write_text(text, "utf-8")
        files.append(name)
    settings = {"typeCheckingMode": "standard", "extraPaths": [str(ROOT)]}
    settings["reportMissingImports"] = False  # gliner and openai
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    done = subprocess.run(
        [sys.executable, "-m", checker, *CHECKERS[checker], *files],
        cwd=tmp_path,
        env=os.environ | {"MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    errors = re.findall(r"(\w+\.py):(\d+):(?:\d+ -)? error: ", done.stdout)
    flagged = {(file, int(n)) for file, n in errors}
    assert flagged == expected, done.stdout + done.stderr
