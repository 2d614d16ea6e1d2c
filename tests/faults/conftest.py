"""Fixtures of the tests with damaged files."""

import pytest

import dicejax.training.train as training
from dicejax.errors import InputError

EXPERIMENT = """
from dicejax.config import Experiment, PretrainedEncoder, ScratchEncoder
from {module} import {source}
from dicejax.tasks import {task}


def get_config():
    return Experiment(
        name="small",
        data={source}(dir={dir!r}, train={train!r}, dev=None, test=None,
                      dev_share=0.3),
        task={task}(),
        encoder={encoder},
    )
"""
HOMES = {"BertMrcFiles": "bert_mrc_files", "CluenerFiles": "cluener_files"}
SCRATCH = """ScratchEncoder(vocab_size=100, hidden_size=8, intermediate_size=8,
                               num_attention_heads=2, num_hidden_layers=1)"""


@pytest.fixture
def experiment(tmp_path):
    """Return a function that writes the file of the smallest experiment."""

    def write(folder, train, *, source, task, encoder=SCRATCH):
        file, module = tmp_path / "small.py", HOMES.get(source, "dicejax.formats")
        named = {"dir": str(folder), "train": train, "source": source, "task": task}
        file.write_text(EXPERIMENT.format(**named, encoder=encoder, module=module))
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
