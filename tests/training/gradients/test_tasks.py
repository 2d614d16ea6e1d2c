"""Analysis of every kind of output."""

import dataclasses

import jax
import numpy as np
import pytest

from dicejax import config
from dicejax.config import Analysis
from dicejax.mesh import MeshShape
from dicejax.objectives import CrossEntropy
from dicejax.training.gradients.probe import Collector
from dicejax.training.setup import prepare
from dicejax.training.sharding import global_batch, replicate
from dicejax.training.throughput import Throughput

from ...shrinking import ROOT, shrunk

# Analysed outputs, without positions, and their number of groups.
KINDS = {
    "ner/conll03": ({}, {"tags": 5}),
    "ner/cluener": ({}, None),
    "ner/conll03_mrc": ({"match_width": 8}, {"start": 2, "end": 2, "match": 2}),
    "qa/squad1": ({}, {"start": 2, "end": 2}),
    "qa/squad1 positions": ({"form": "positions"}, {}),
    "paraphrase/mrpc": ({}, {"label": 2}),
}
DEFAULT = ("ner/conll03", "paraphrase/mrpc")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in DEFAULT else [pytest.mark.exhaustive])
        for name in KINDS
    ],
)
def test_counts_are_those_of_the_labels(name, tmp_path):
    changes, groups = KINDS[name]
    experiment = config.load(ROOT / f"{name.split()[0]}.py")
    task = dataclasses.replace(experiment.task, **changes)
    experiment = dataclasses.replace(experiment, task=task, objective=CrossEntropy())
    experiment = dataclasses.replace(
        shrunk(experiment, tmp_path), analysis=Analysis(every=1)
    )
    setup = prepare(experiment, warn=lambda text: None)
    mesh = MeshShape().make(jax.devices()[:1])
    batches, notes = setup.batches(mesh), []
    state = setup.initial_state(mesh, len(batches))
    objective = replicate(setup.objective, mesh)
    collector = Collector(setup, tmp_path, mesh, after_step=0, say=notes.append)
    batch = global_batch(batches[0].arrays, mesh)
    collector.look(1, state, batch, objective, Throughput([]))
    collector.log.close()
    if groups == {}:
        assert not collector._pending and any("positions" in text for text in notes)
        return
    ((_, measured),) = jax.device_get(collector._pending)
    if groups is not None:
        assert groups == {key: len(x.measures.count) for key, x in measured.items()}
    for output, result in measured.items():
        measures = result.measures
        if output in batches[0].arrays:
            labels = batches[0].arrays[output]
            assert measures.count.sum() == (labels >= 0).sum() > 0
            assert measures.count[0] == (labels == 0).sum()
        norm = measures.gradient_norm.sum()
        assert 0 < norm < np.inf and not measures.not_finite
        assert all(-1 <= value <= 1 for value in result.cosine.values())
        if result.kinds is not None:
            total = result.kinds["gradient_norm"].sum()
            np.testing.assert_allclose(total, norm, rtol=1e-4)
