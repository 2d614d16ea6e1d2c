"""Fixtures of the tests with damaged files."""

import pytest

import dicejax.training.train as training
from dicejax.cli import run
from dicejax.errors import InputError

from .commands import tiny

EXPERIMENT = """
from dicejax.config import Experiment, PretrainedEncoder, ScratchEncoder
from {module} import {source}
from dicejax.tasks import {task}


def get_config():
    return Experiment(
        name="small",
        data={source}(dir={dir!r}, train={train!r}, dev=None, test=None,
                      dev_share=0.3, {fields}),
        task={task}(),
        encoder={encoder},
    )
"""
HOMES = {"BertMrcFiles": "bert_mrc_files", "CluenerFiles": "cluener_files"}
SCRATCH = """ScratchEncoder(vocab_size=100, hidden_size=8, intermediate_size=8,
                               num_attention_heads=2, num_hidden_layers=1)"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Return the folder of a finished run."""
    out = tmp_path_factory.mktemp("finished") / "run"
    assert run(tiny(out)) == 0
    return out


@pytest.fixture
def experiment(tmp_path):
    """Return a function that writes the file of the smallest experiment."""

    def write(folder, train, *, source, task, encoder=SCRATCH, fields=""):
        file, module = tmp_path / "small.py", HOMES.get(source, "dicejax.formats")
        named = {"dir": str(folder), "train": train, "source": source, "task": task}
        named |= {"encoder": encoder, "module": module, "fields": fields}
        file.write_text(EXPERIMENT.format(**named))
        return str(file)

    return write


@pytest.fixture
def reading_only(monkeypatch):
    """Let `train` end when data and weights have been read."""
    prepare = training.prepare

    def stopped(*inputs):
        prepare(*inputs)
        raise InputError("all has been read")

    monkeypatch.setattr(training, "prepare", stopped)
