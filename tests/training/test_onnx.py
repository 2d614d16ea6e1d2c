"""ONNX files vs. JAX and PyTorch, and a quantisation that is broken."""

import dataclasses
import shutil
import types

import numpy as np
import pytest

from dicejax.config import Experiment, Training
from dicejax.data import tokenize
from dicejax.data.synthetic import TYPES, SyntheticNER
from dicejax.errors import InputError
from dicejax.models import huggingface
from dicejax.models.heads import TokenHead
from dicejax.study import onnx_export
from dicejax.tasks import Tagging
from dicejax.training import export, onnx
from dicejax.training.predict import decode_examples

from ..models.small import drawn, encoder_of, network_of

for name in onnx.PACKAGES:
    pytest.importorskip(name, reason="ONNX: pip install -e '.[onnx]'")

LENGTH = 14  # most sentences need windows
TASK = Tagging(stride=4)
LABELS = ("O", *(f"{part}-{name}" for name in TYPES for part in "BI"))
SYNTHETIC = SyntheticNER(train=20, dev=40, test=4).load()


@dataclasses.dataclass(frozen=True)
class Corpora:
    """A source whose gold of dev is what the network predicts: F1 is 100."""

    dev: tuple

    def load(self):
        return dataclasses.replace(SYNTHETIC, dev=self.dev)


def predicted(network, params, tokenizer):
    """Return dev with the network's predictions as gold."""
    items = TASK.encode(SYNTHETIC.dev, tokenizer, LABELS, LENGTH)
    counts = np.bincount([item.example for item in items])
    assert (counts > 1).mean() > 0.3
    result = decode_examples(
        params,
        SYNTHETIC.dev,
        items,
        task=TASK,
        network=network,
        labels=LABELS,
        tokenizer=tokenizer,
        max_length=LENGTH,
        mesh=Experiment(name="x", data=SyntheticNER()).mesh.make(),
    )
    pairs = zip(SYNTHETIC.dev, result.candidates[0], strict=True)
    return tuple(dataclasses.replace(x, spans=tuple(y.values)) for x, y in pairs)


@pytest.fixture(scope="module", params=["bert", "modernbert"])
def exported(request, tmp_path_factory):
    """Return a folder with ONNX files."""
    words = [" ".join(example.words) for example in SYNTHETIC.train]
    tokenizer = tokenize.learn_wordpiece(words, 200)
    settings = {"local_attention": 6} if request.param == "modernbert" else {}
    encoder = encoder_of(
        request.param, 24, 40, vocab=tokenizer.get_vocab_size(), **settings
    )
    network = network_of(encoder, TokenHead(classes=len(LABELS)))
    params = drawn(network)
    experiment = Experiment(
        name="small",
        data=Corpora(predicted(network, params, tokenizer)),
        task=TASK,
        training=Training(max_length=LENGTH),
    )
    run = types.SimpleNamespace(
        experiment=lambda: experiment,
        labels=lambda: LABELS,
        result=lambda: {"primary_metric": "f1", "test": {"f1": 0.5}},
    )
    folder = tmp_path_factory.mktemp(request.param) / "model"
    opener = huggingface.write(
        folder, network, params, labels=LABELS, tokenizer=tokenizer
    )
    dev = experiment.data.dev
    made = export.Exported(folder, opener, run, network, params, tokenizer, dev)
    onnx.require(network)
    onnx.write(made)
    return made


@pytest.mark.slow
def test_both_files_predict_dev_as_the_run_does(exported):
    exact, small = onnx.predict_dev(exported)
    assert 0 < exact.difference < 1e-5 * exact.largest
    np.testing.assert_array_equal(exact.shares, exact.run_shares)
    total = exact.run_shares.sum(axis=(0, 1))
    assert total[0] == total[1] > 40  # F1 is 100
    assert 1e-3 < small.difference / small.largest < 0.2
    text, is_worse = onnx_export.compare(exact, "F1")
    assert (text, is_worse) == ("identical F1 on each", False)
    # The files take any number of lines of any length, padded or not.
    import onnxruntime
    import torch

    model, _ = export.open_in_torch(exported.folder, exported.opener)
    rng = np.random.default_rng(0)
    ids = rng.integers(5, 100, (3, 23))
    mask = (np.arange(23) < np.array([[23], [9], [1]])).astype(np.int64)
    session = onnxruntime.InferenceSession(exported.folder / onnx.FILES[0])
    inputs = {x.name: np.zeros_like(ids) for x in session.get_inputs()}
    inputs |= {"input_ids": ids, "attention_mask": mask}
    theirs = model(**{name: torch.tensor(x) for name, x in inputs.items()}).logits
    (ours,) = session.run(["logits"], inputs)
    real = mask > 0
    np.testing.assert_allclose(ours[real], theirs.numpy()[real], atol=1e-5)


@pytest.mark.slow
def test_a_broken_quantisation_is_refused(exported, tmp_path, monkeypatch):
    import onnx as graphs
    from onnx import numpy_helper

    model = graphs.load(exported.folder / onnx.FILES[1])
    scales = [x for x in model.graph.initializer if x.name.endswith("_scale")]
    assert len(scales) > 5
    for scale in scales:
        values = numpy_helper.to_array(scale)
        scale.CopyFrom(numpy_helper.from_array(-values, scale.name))
    (tmp_path / "onnx").mkdir()
    exact, small = (tmp_path / name for name in onnx.FILES)
    exact.hardlink_to(exported.folder / onnx.FILES[0])
    graphs.save(model, small)
    broken = dataclasses.replace(exported, folder=tmp_path)
    monkeypatch.setattr(onnx, "write", lambda exported: None)
    message = r"int8.onnx, .* worse: −\d.* F1 \(95% CI −.*--force writes it"
    with pytest.raises(InputError, match=message):
        list(onnx_export.add(broken))
    first, second = onnx_export.add(broken, force=True)
    assert "identical" in first and "worse: −" in second


def test_differences_have_a_verdict():
    """The interval is that of the normal approximation in closed form."""
    right = np.arange(4000) % 10 > 0
    fewer = right & (np.arange(4000) >= 100)  # 90 of 3,600 lost
    parts = [np.stack([x, np.ones(4000)], -1)[:, None] for x in (fewer, right)]
    file = onnx.FileOnDev(onnx.FILES[1], 0.5, 9.0, *parts)
    text, is_worse = onnx_export.compare(file, "accuracy")
    half = 1.96 * np.sqrt(0.0225 * (1 - 0.0225) / 4000)
    assert is_worse
    assert f"worse: −2.25 accuracy (95% CI −{2.25 + 100 * half:.2f} to" in text
    assert text.endswith("from 90.00 to 87.75")
    few = right & (np.arange(4000) != 1)
    file = dataclasses.replace(file, shares=np.stack([few, np.ones(4000)], -1)[:, None])
    text, is_worse = onnx_export.compare(file, "accuracy")
    assert text.startswith("practically equal: −0.0") and not is_worse
    for difference in (np.inf, 1.0):
        odd = dataclasses.replace(file, name=onnx.FILES[0], difference=difference)
        assert onnx_export.compare(odd, "accuracy")[1]
    odd = dataclasses.replace(file, difference=np.inf)
    assert onnx_export.compare(odd, "accuracy")[1]


def test_what_onnx_cannot_hold_is_refused(exported, tmp_path, monkeypatch):
    import torch

    def export_to_onnx(*inputs, **settings):
        raise ValueError("a long story") from RuntimeError("no operator\nof this kind")

    bare = dataclasses.replace(exported.network, heads=())
    with pytest.raises(InputError, match="--onnx: takes a run with one head"):
        onnx.require(bare)
    copy = shutil.copytree(
        exported.folder, tmp_path / "copy", ignore=shutil.ignore_patterns("onnx")
    )
    monkeypatch.setattr(torch.onnx, "export", export_to_onnx)
    with pytest.raises(
        InputError, match="cannot be written: no operator; leave it out"
    ):
        onnx.write(dataclasses.replace(exported, folder=copy))
