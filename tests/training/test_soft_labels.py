"""Soft labels and weights of examples: their gradients, and losses that refuse them."""

import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dicejax import objectives
from dicejax.cli import run
from dicejax.config import Experiment, ScratchEncoder, Training
from dicejax.data.examples import LabelledText, Sentence, Span
from dicejax.data.source import Corpus, Source
from dicejax.errors import InputError
from dicejax.mesh import MeshShape
from dicejax.objectives import (
    CrossEntropy,
    Dice,
    Focal,
    Gold,
    Metro,
    PositionCrossEntropy,
    by_short_name,
)
from dicejax.optimizers import AdamW
from dicejax.tasks import Classification, Tagging
from dicejax.tasks.classification import soften
from dicejax.training.accumulation import loss_and_gradient
from dicejax.training.setup import prepare
from dicejax.training.sharding import by_path, global_batch, put, to_host

from . import worker

CLASSES, ROWS = ("a", "b", "c"), 64
SMALL = {"vocab_size": 60, "hidden_size": 16, "intermediate_size": 16, "dropout": 0.0}
SMALL |= {"num_hidden_layers": 1, "num_attention_heads": 2}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Made(Source):
    """Texts of three classes, or sentences with spans, with weights or soft labels."""

    task: str = "texts"
    soft: bool = False
    weighted: bool = False
    low: float = 0.0

    def load(self) -> Corpus:
        rng, examples = np.random.default_rng(0), []
        for number in range(150):
            words = tuple(f"w{n}" for n in rng.integers(9, size=rng.integers(2, 12)))
            weight = float(rng.choice([self.low, 0.5, 1, 3])) if self.weighted else 1.0
            shares = rng.dirichlet([0.5] * 3).round(2)
            soft = tuple(zip(CLASSES, shares.tolist(), strict=True))
            soft = soft if self.soft and number % 3 else None
            texts = " ".join(words), None, CLASSES[shares.argmax()]
            example = LabelledText(*texts, str(number), number, soft, weight)
            if self.task == "words":
                spans = (Span("X", 0, int(rng.integers(1, len(words)))),)
                spans *= min(number % 3, 1)
                example = Sentence(words, spans, number, weight=weight)
            examples.append(example)
        # Of dev and test the label alone counts.
        odd = [dataclasses.replace(x, weight=float("nan")) for x in examples[:9]]
        return Corpus(tuple(examples), tuple(odd), tuple(odd))


def experiment(objective=None, sampling=None, **data):
    return Experiment(
        name="made",
        data=Made(**data),
        task=Tagging() if data.get("task") == "words" else Classification(stride=2),
        sampling=sampling,
        encoder=ScratchEncoder(**SMALL),
        objective=objective or CrossEntropy(),
        optimizer=AdamW(),
        training=Training(epochs=1, max_length=10, rows_per_update=ROWS),
    )


def ce(p, y, w):
    """Return cross-entropy, sum w l / sum w, and its slopes for the logits."""
    w = w[..., None] / w.sum()
    # Probabilities of float32 do not sum to 1 exactly.
    slopes = w * (y.sum(-1, keepdims=True) * p - y)
    return -(w * y * np.log(p)).sum(), slopes


def semimetric(p, y, w):
    """Return the Dice semimetric loss of one set, and its slopes for the logits."""
    w, axes = w[..., None], tuple(range(p.ndim - 1))
    over = 2 * np.minimum(w * p, y).sum(axes) + 1
    under = (w * p + y).sum(axes) + 1
    by_p = w * (over / under**2 - 2 * (p < y) / under) / p.shape[-1]
    return (1 - over / under).mean(), p * (by_p - (by_p * p).sum(-1, keepdims=True))


ORACLES = {
    "soft and weighted": (ce, CrossEntropy(), {"soft": True, "weighted": True}),
    "soft set": (semimetric, objectives.DiceSemimetric(smooth=1.0), {"soft": True}),
    "weighted words": (ce, CrossEntropy(), {"task": "words", "weighted": True}),
}

# What a loss is of, devices, and micro-batches. Each on devices in micro-batches; on
# one device all add up alike.
QUICK = [*((name, 8, 2) for name in ORACLES), ("soft and weighted", 1, 8)]
OTHERS = sorted({*itertools.product(ORACLES, (1, 8), (1, 2, 8))} - {*QUICK})


def gold_of(setup, batch, logits):
    """Return targets and weights of a batch's logits from the examples themselves."""
    y, w = np.zeros(logits.shape), np.zeros(logits.shape[:-1])
    names, items = setup.data.labels, setup.data.items["train"]
    for row, members in enumerate(batch.rows):
        start = 0
        for number, item in enumerate(items[member] for member in members):
            example = setup.data.corpus.train[item.example]
            if isinstance(example, Sentence):
                tags = setup.experiment.task.word_classes(example)
                pairs = zip(start + item.detail, tags, strict=True)
                golds = [(n, {tag: 1}) for n, tag in pairs if n >= start]
            else:
                shares = dict(example.probabilities or ((example.label, 1),))
                golds = [(number, shares)]
            for place, shares in golds:
                y[row, place] = [shares.get(name, 0) for name in names]
                y[row, place] = np.float32(y[row, place] / sum(shares.values()))
                w[row, place] = example.weight
            start += len(item)
    return y, w


@functools.cache
def prepared(name):
    setup = prepare(experiment(ORACLES[name][1], **ORACLES[name][2]), print)
    assert len(setup.data.items["train"]) > len(setup.data.corpus.train)  # windows
    batch = setup.batches(MeshShape().make())[0]
    net = dataclasses.replace(setup.network, precision="float64")
    shapes, rng = jax.eval_shape(net.init, jax.random.key(3)), np.random.default_rng(5)
    params = jax.tree.map(lambda x: rng.normal(0, 0.3, x.shape), shapes)
    return setup, batch, net, params


def flat(prefix, results):
    return {f"{prefix}:{n}": np.asarray(x) for n, x in by_path(results).items()}


def results_of(layouts):
    """Return loss and gradient as a step takes them, by name."""
    results = {}
    for name, devices, parts in layouts:
        mesh = MeshShape(data=devices).make(jax.devices()[:devices])
        setup, batch, net, params = prepared(name)
        settings = {"objective": setup.objective, "network": net, "mesh": mesh}
        settings |= {"task": setup.experiment.task, "micro_batches": parts}
        arrays = global_batch(batch.arrays, mesh, ROWS)

        def both(*inputs, settings=settings):
            done = loss_and_gradient(*inputs, **settings)
            return done.loss, done.gradients

        with jax.enable_x64(True):
            values = to_host(jax.jit(both)(put(params, mesh), arrays), mesh)
        results |= flat(f"{name} {devices} {parts}", values)
    return results


@pytest.mark.slow
@pytest.mark.parametrize(
    "layouts", [QUICK, pytest.param(OTHERS, marks=pytest.mark.exhaustive)], ids=len
)
def test_loss_and_gradient_are_those_of_the_formula(layouts, tmp_path):
    results = worker.call(results_of, layouts, devices=8, folder=tmp_path)
    for name, (oracle, _, _) in ORACLES.items():
        setup, batch, net, params = prepared(name)
        apply = functools.partial(net.apply, batch=batch.arrays)
        with jax.enable_x64(True):
            ((head, logits),) = jax.jit(apply)(params).items()
            p = np.asarray(jax.nn.softmax(logits))
            loss, slopes = oracle(p, *gold_of(setup, batch, logits))
            back = jax.jit(lambda params, x, apply=apply: jax.vjp(apply, params)[1](x))
            expected = loss, back(params, {head: jnp.asarray(slopes)})[0]
        for _, devices, parts in (x for x in layouts if x[0] == name):
            values = flat(f"{name} {devices} {parts}", expected)
            largest = max(np.abs(x).max() for x in values.values())
            for key, value in values.items():
                assert np.abs(results[key] - value).max() < 1e-10 * largest, key


OF_ONE = (
    CrossEntropy(label_smoothing=0.1),
    Dice(over="element", squared=True, exclude_class="negatives"),
    objectives.DSCOfficial(),
    objectives.WeightedSum(parts=(CrossEntropy(), Dice(over="element"))),
    objectives.LinearSchedule(first=CrossEntropy(), then=Focal()),
)
OF_SEVERAL = (CrossEntropy(), objectives.Asymmetric(), objectives.ZLPR(), Focal())


@pytest.mark.parametrize("several", [False, True])
def test_a_weight_of_two_is_the_example_twice(several):
    rng = np.random.default_rng(1)
    logits = rng.normal(size=(6, 4, 3))
    labels = rng.integers(2 if several else 3, size=logits.shape[: 2 + several])
    labels[2, 1] = labels[4] = -100
    times = np.array([2, 1, 3, 0, 1, 1])
    for objective in OF_SEVERAL if several else OF_ONE:

        def loss(logits, gold, objective=objective):
            return objective({"x": logits}, {"x": gold}, objective.initial_state())[0]

        both = jax.jit(jax.value_and_grad(loss))

        def weighted(weights, both=both):
            gold = Gold(labels, weights=np.tile(weights[:, None] * 1.0, 4))
            return flat("", both(logits, gold))

        def repeated(times, both=both):
            """Return the loss and, of each example, the sum of its gradients."""
            rows = np.repeat(np.arange(6), times)
            value, slopes = both(logits[rows], labels[rows])
            total = np.zeros(logits.shape)
            np.add.at(total, rows, slopes)
            return flat("", (value, total))

        with jax.enable_x64(True):
            every = np.ones(6, int)
            plain, ones, twice = repeated(every), weighted(every), repeated(times)
            for key, value in weighted(times).items():
                np.testing.assert_allclose(value, twice[key], 1e-12, 1e-15)
                np.testing.assert_array_equal(ones[key], plain[key])
                assert np.abs(value - plain[key]).max() > 1e-3


def refused(**data):
    """Return the short names of objectives that a corpus is refused for."""
    setup, names = prepare(experiment(**data), print), set()
    for name, cls in by_short_name().items():
        try:
            if not issubclass(cls, PositionCrossEntropy | Metro):  # of 3 classes
                setup.bind(cls())
        except InputError as error:
            names.add(name)
            assert str(error).startswith(f"objective {name}: train has "), error
    return names


def test_losses_that_cannot_take_them_say_so_before_training():
    wanting_classes = (
        "ap auc class_balanced ghm hard_negatives ldam lovasz_hinge mined mom "
        "unified_focal vs"
    )
    assert refused(soft=True) == set(wanting_classes.split())
    additive = {n for n, c in by_short_name().items() if c().is_additive}
    additive |= {"dsc-official"}  # of three classes it is over elements
    assert refused(weighted=True) == set(by_short_name()) - additive
    assert {"ce", "focal", "dl", "zlpr", "position_ce"} < additive


EXPERIMENT = """
from dicejax.data.resample import ImportanceSampling
from tests.training.test_soft_labels import *
def get_config():
    return experiment({}, {}, **{})
"""


@pytest.mark.parametrize(
    ("objective", "sampling", "data", "message"),
    [
        ("Dice()", None, {"weighted": True}, "a set is over batch; take over=element"),
        ("by_short_name()['mom']()", None, {"soft": True}, "train has probabilities"),
        (None, "ImportanceSampling()", {"weighted": True}, "it weights what it draws"),
        (None, None, {"weighted": True, "low": -1}, "of train: weight is -1.0; want a"),
    ],
)
def test_the_command_refuses_in_one_line(
    objective, sampling, data, message, tmp_path, capsys
):
    file, out = tmp_path / "mine.py", tmp_path / "run"
    file.write_text(EXPERIMENT.format(objective, sampling, data))
    assert run(["train", str(file), "--out", str(out)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [message in line for line in lines if line.startswith("dicejax: ")] == [True]
    assert not out.exists()


@pytest.mark.parametrize(
    ("data", "loss", "message"),
    [
        ({"weighted": True}, "dice", "a set is over batch; take over=element"),
        ({"soft": True}, "mom", "train has probabilities of classes"),
    ],
)
@pytest.mark.parametrize("words", ["--seeds 2", "--tune 2", "--tune 2 --seeds 0"])
def test_compare_refuses_any_loss_before_the_first_run(
    data, loss, message, words, tmp_path, capsys
):
    file, out = tmp_path / "mine.py", tmp_path / "runs"
    file.write_text(EXPERIMENT.format(None, None, data))
    argv = ["compare", str(file), "--losses", "focal", loss, "--out", str(out)]
    assert run([*argv, *words.split()]) == 2
    lines = capsys.readouterr().err.splitlines()
    (line,) = (line for line in lines if line.startswith("dicejax: "))
    assert line.startswith(f"dicejax: objective {loss}: ") and message in line
    assert not out.exists()


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ((("a", 0.5), ("a", 0.5)), "name a class twice"),
        ((("a", 1.5), ("b", -0.5)), "are not all from 0 to 1"),
        ((("a", float("nan")), ("b", 0.5)), "are not all from 0 to 1"),
        ((("a", 0.6), ("b", 0.3)), "sum to 0.9, not to 1"),
        ((("a", 0.4), ("b", 0.6)), "have another class at the top than its label 'a'"),
    ],
)
def test_probabilities_that_are_none_are_named_with_their_line(pairs, message):
    text = LabelledText("x", None, "a", "7", 8, pairs)
    with pytest.raises(InputError, match=f"line 8 of train.* example 7 {message}"):
        soften([], [text], Classification().targets(CLASSES))


def test_what_is_sure_costs_no_array_and_a_class_may_have_no_text_of_its_label():
    for data in ({}, {"task": "words"}):
        batch = prepare(experiment(**data), print).batches(MeshShape(data=1).make())[0]
        assert not [name for name in batch.arrays if "weight" in name or "prob" in name]
    text = LabelledText("x", None, "a", "7", 8, (("a", 0.7), ("b", 0.3)))
    assert Classification().label_names([text]) == ("a", "b")
