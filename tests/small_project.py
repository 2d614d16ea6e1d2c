"""Small experiments in a user's style."""

from pathlib import Path

from dicejax.cli import run

CORPUS = """-DOCSTART- -X- O

Anna NNP B-PER
lives VBZ O
in IN O
Oslo NNP B-LOC

Bob NNP B-PER
saw VBD O
New NNP B-LOC
York NNP I-LOC
today NN O

Nothing NN O
happens VBZ O
here RB O
"""

EXPERIMENT = """
from dicejax.config import Experiment, ScratchEncoder, Training
from dicejax.formats import ConllFiles
from dicejax.optimizers import AdamW


def get_config():
    return Experiment(
        name="small",
        data=ConllFiles(dir={folder!r}),
        encoder=ScratchEncoder(vocab_size=200, hidden_size=32, intermediate_size=64,
                               num_hidden_layers=1, dropout=0.0),
        optimizer=AdamW(learning_rate=1e-2),
        training=Training(epochs=12, batch_size=16, max_length=32,
                          log_every=5),
    )
"""


def write_project(folder: Path) -> Path:
    """Write the corpus to `data/` of a folder and the experiment to its `mine.py`."""
    data = folder / "data"
    data.mkdir(parents=True)
    for name in ("train.txt", "dev.txt", "test.txt"):
        (data / name).write_text(CORPUS * (16 if name == "train.txt" else 2))
    (folder / "mine.py").write_text(EXPERIMENT.format(folder=str(data)))
    return folder


ONE_FILE = """
from dicejax.config import Experiment, ScratchEncoder, Training
from dicejax.formats import {source}
from dicejax.optimizers import AdamW
from dicejax.tasks import {task}


def get_config():
    return Experiment(
        name="tiny",
        data={source}(dir={folder!r}, train="data", dev="data", {reads}),
        task={task}({settings}),
        encoder=ScratchEncoder(vocab_size=80, hidden_size=16, intermediate_size=32,
                               num_hidden_layers=1, dropout=0.0),
        training=Training(epochs=1, batch_size=8, max_length=32),
        optimizer=AdamW(learning_rate=0.01),
    )
"""


def write_experiment(root, source, task, content, settings="", reads="test=None"):
    """Write an experiment on one file; return the arguments that train it."""
    (root / "data").write_text(content)
    form = {"source": source, "task": task, "settings": settings, "reads": reads}
    (root / "mine.py").write_text(ONE_FILE.format(folder=str(root), **form))
    return ["train", str(root / "mine.py"), "--out", str(root / "run")]


def fails(capsys, argv, *parts):
    """Run, and expect status 2 and one line on standard error with these parts.

    Before it `train` may have said what it trains, and which files it does not.
    """
    assert run(argv) == 2
    lines = [*filter(None, capsys.readouterr().err.splitlines())]
    lines = [x for x in lines if not x.startswith("note: not read of ")]
    if argv[0] == "train" and " epochs, batches of " in lines[0]:
        del lines[0]
    assert len(lines) == 1, lines
    for part in ("dicejax: ", *parts):
        assert part in lines[0]
