"""Every experiment file loads, has its header, and its step compiles or traces."""

import re

import pytest

from dicejax import config
from dicejax.training.setup import prepare

from .shrinking import FILES, NAMES, ROOT, shrunk, traces_a_step, trains_two_steps

WANTED = """
ablations/qqp_imbalance ablations/sst2 ablations/sst5 ablations/tversky_alpha
ner/cluener ner/conll03 ner/conll03_mrc ner/msra ner/ontonotes4 ner/ontonotes5
paraphrase/mrpc paraphrase/qqp pos/ctb5 pos/ctb6 pos/tweets pos/ud14 pos/wsj
qa/quoref qa/squad1 qa/squad2 quickstart several_labels
"""


def test_every_data_set_of_the_paper_has_its_file():
    assert set(WANTED.split()) <= set(NAMES)


@pytest.mark.parametrize("file", FILES, ids=NAMES)
def test_it_has_its_header_and_survives_its_record(file):
    head = file.read_text().split('"""')[1]
    fields = re.findall(r"^(\w+):", head, re.MULTILINE)
    assert {"command", "measured"} <= set(fields)
    assert "paper" in fields or file.stem in ("quickstart", "several_labels")
    assert f"experiments/{file.relative_to(ROOT)}" in head
    experiment = config.load(file)
    assert experiment.name == file.stem
    assert config.from_json(config.to_json(experiment)) == experiment


# test_every_loss.py trains each kind of head; steps are traced here, but for its
# experiments and those of the same task and form of data.
LIKE_OTHERS = """
ablations/sst5 ner/cluener ner/conll03 ner/conll03_mrc ner/ontonotes4 ner/ontonotes5
paraphrase/mrpc paraphrase/qqp pos/ctb6 pos/wsj qa/squad1 several_labels
"""


@pytest.mark.parametrize(
    "file",
    [
        pytest.param(
            file,
            id=name,
            marks=[pytest.mark.exhaustive] * (name in LIKE_OTHERS.split()),
        )
        for name, file in zip(NAMES, FILES, strict=True)
    ],
)
def test_its_step_can_be_traced(file, tmp_path):
    experiment = config.load(file)
    traces_a_step(prepare(shrunk(experiment, tmp_path), warn=lambda text: None))


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("file", FILES, ids=NAMES)
def test_it_trains_two_steps(file, tmp_path):
    experiment = config.load(file)
    setup = prepare(shrunk(experiment, tmp_path), warn=lambda text: None)
    trains_two_steps(setup, experiment.objective)
