"""Sets, classes and reductions of the objectives of set losses."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dicejax.cli.choices import objective_named
from dicejax.errors import InputError
from dicejax.losses.declaration import REGISTRY
from dicejax.objectives import (
    CrossEntropy,
    Dice,
    DSCOfficial,
    GeneralizedDice,
    SigmoidF1,
    SoftF1,
    Tversky,
    UnifiedFocal,
    WeightedSum,
    loss,
)

from .losses import oracle, oracle_sets

ROWS, TOKENS, CLASSES = 5, 4, 3
PER_CLASS = (
    "dice",
    "dice_semimetric",
    "dsc",
    "focal_tversky",
    "jaccard",
    "log_cosh_dice",
    "lovasz",
    "sigmoid_f1",
    "soft_f1",
    "tversky",
)
FORMS = ("softmax", "multi-label")


def batch(form):
    """Return logits and labels; row 3 has none, row 4 one token with a label."""
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(ROWS, TOKENS, CLASSES)).astype(np.float32)
    if form == "softmax":
        labels = rng.integers(0, CLASSES, (ROWS, TOKENS))
    else:
        labels = rng.integers(0, 2, logits.shape)
        labels[0, :, 2] = -100  # the class of a row
    labels[3], labels[4, 1:] = -100, -100
    return logits, labels


def sets_of(over):
    """Return the index of each set."""
    if over == "batch":
        return [np.s_[:]]
    if over == "element":
        return [np.s_[row, token] for row in range(ROWS) for token in range(TOKENS)]
    rows = 1 if over == "sequence" else over
    return [np.s_[start : start + rows] for start in range(0, ROWS, rows)]


def wanted(form, over, numbers, reduce):
    """Return the mean over labelled sets of dice, by the oracle."""
    logits, labels = batch(form)
    several = form == "multi-label"
    found, counted = [], []
    for one in sets_of(over):
        # Every element is labelled in the oracle's sets, or left out of them.
        seen = labels[one] != -100
        if not seen.any():
            continue
        z, y = logits[one], labels[one]
        values = oracle.dice(z[None], y[None], multi_label=several)[numbers]
        has = seen.reshape(-1, CLASSES).any(0)[numbers] if several else values >= 0
        found.append(np.where(has, values, 0))
        counted.append(has)
    sums, number = np.sum(found), np.sum(counted)
    return sums / (number if reduce == "mean" else len(found))


@pytest.mark.parametrize("form", FORMS)
def test_a_loss_is_the_mean_over_labelled_sets_and_over_classes(form):
    logits, labels = batch(form)
    losses = [
        Dice(over=over, **settings)
        for over in ("batch", "sequence", "element", 1, 2, 9)
        for settings in ({}, {"classes": "1,2", "reduce": "sum"})
    ]
    compute = jax.jit(lambda *batch: [dice.loss(*batch) for dice in losses])
    for dice, got in zip(losses, compute(logits, labels), strict=True):
        numbers = [1, 2] if dice.reduce == "sum" else [0, 1, 2]
        value = wanted(form, dice.over, numbers, dice.reduce)
        assert float(got) == pytest.approx(value, rel=1e-5), dice


def test_sets_without_a_label_do_not_count():
    logits, labels = batch("softmax")

    labelled = np.array([0, 1, 2, 4])
    without = Dice(over="sequence").loss(logits[labelled], labels[labelled])
    assert float(Dice(over=1).loss(logits, labels)) == pytest.approx(
        float(without), rel=1e-6
    )
    assert float(Dice(over=2).loss(logits[3:4], labels[3:4])) == 0.0


def values_of_classes(name, logits, labels):
    """Return the loss of classes 1 and 2 of a softmax, by the public function."""
    function = REGISTRY[name].function
    if name == "soft_f1":
        return function(logits, labels, exclude_class=0)
    if name == "sigmoid_f1":
        one_hot = np.where(labels[..., None] < 0, -100, labels[..., None] == [1, 2])
        return function(logits[..., 1:], one_hot)
    return function(logits, labels)[1:].mean()


def test_the_positive_classes_are_all_but_the_first():
    logits, labels = batch("softmax")
    names = [name for name in REGISTRY if name in PER_CLASS]
    assert len(names) == len(PER_CLASS)

    @jax.jit
    def losses_of(logits):
        classes = {"classes": "positive"}
        return [
            REGISTRY[name].function.objective(**classes).loss(logits, labels)
            for name in names
        ], [values_of_classes(name, logits, labels) for name in names]

    np.testing.assert_allclose(*losses_of(logits), rtol=2e-5)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", [n for n, d in REGISTRY.items() if d.kind == "set"])
def test_every_set_loss_takes_every_set_and_the_positive_classes(name, form):
    logits, labels = batch(form)
    cls = REGISTRY[name].function.objective
    for over in ("batch", "sequence", "element", "published", 2):
        for classes in ("all", "positive", "1"):
            one = cls(over=over, classes=classes)
            try:
                value = jax.eval_shape(one.loss, logits, labels)
            except ValueError as error:
                assert name == "unified_focal" and classes in str(error)
            else:
                assert value.shape == () and value.dtype == np.float32


def test_generalized_dice_weighs_the_classes_that_count():
    logits, labels = batch("softmax")
    two = np.where(labels[..., None] < 0, -100, labels[..., None] == [1, 2])
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    log_odds = np.log(p / (1 - p))[..., 1:]
    value = oracle_sets.generalized_dice(log_odds, two, multi_label=True)
    got = jax.jit(GeneralizedDice(classes="positive").loss)(logits, labels)
    assert float(got) == pytest.approx(float(value), rel=1e-5)


def test_sets_of_rows_on_a_mesh_have_the_value_of_one_device():
    rng = np.random.default_rng(1)
    logits = rng.normal(size=(16, TOKENS, CLASSES)).astype(np.float32)
    labels = rng.integers(-1, CLASSES, (16, TOKENS))
    labels = np.where(labels < 0, -100, labels)
    objectives = (Dice(over=3, classes="positive"), Tversky(over="sequence"))
    mesh = jax.make_mesh(
        (jax.device_count(),), ("data",), axis_types=(jax.sharding.AxisType.Auto,)
    )
    rows = jax.NamedSharding(mesh, jax.P("data"))

    @jax.jit
    def both(logits, labels):
        def total(logits):
            return sum(one.loss(logits, labels) for one in objectives)

        return jax.value_and_grad(total)(logits)

    one_device = both(logits, labels)
    spread = both(jax.device_put(logits, rows), jax.device_put(labels, rows))
    np.testing.assert_allclose(spread[0], one_device[0], rtol=1e-6)
    np.testing.assert_allclose(spread[1], one_device[1], rtol=0, atol=1e-7)


NAMES = {"tags": ("O", "B-LOC", "B-PER", "I-PER")}


@pytest.mark.parametrize(
    ("classes", "numbers"),
    [
        ("PER,LOC", ("1", "2", "3")),
        (("B-PER",), ("2",)),
        ((2, "O"), ("0", "2")),
        ("positive", ("positive",)),
        ("all", ("all",)),
    ],
)
def test_classes_are_named_or_numbered(classes, numbers):
    bound = Dice(output="tags", classes=classes).bind_classes(NAMES, ["tags"])
    assert bound.classes == numbers
    both = WeightedSum(parts=(CrossEntropy(), Dice(classes=classes)))
    both = both.bind_outputs(["tags"]).bind_classes(NAMES, ["tags"])
    assert both.parts[1] == bound


def test_names_come_before_numbers_and_without_a_negative_class_all_are_positive():
    stars = {"label": ("1", "2", "10")}
    bound = Dice(output="label", classes="2,10").bind_classes(stars, [])
    assert bound.classes == ("1", "2")
    bound = Dice(output="tags", classes="positive").bind_classes(NAMES, [])
    assert bound.classes == ("all",)
    several = Dice(output="start", classes="positive").bind_classes({"start": ()}, [])
    assert several.classes == ("positive",)


def test_what_the_published_code_takes_depends_on_the_classes():
    logits, labels = batch("softmax")
    two, few = logits[..., :2], np.minimum(labels, 1)
    how = {"squared": True, "alpha": 0.01}
    of_two = oracle.dice(two, few, **how)[1]
    of_each = oracle.dice(logits, labels, axis=(), **how).sum() / (labels >= 0).sum()
    published = jax.jit(DSCOfficial().loss)
    assert float(published(two, few)) == pytest.approx(of_two, rel=1e-5)
    assert float(published(logits, labels)) == pytest.approx(of_each, rel=1e-5)
    assert not DSCOfficial().is_additive


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"over": 0}, "over is 0 but a set has 1 row or more"),
        ({"over": "token"}, "over is 'token' but must be 'batch'"),
        ({"reduce": "max"}, "reduce is 'max' but must be 'mean' or 'sum'"),
        ({"classes": ""}, "classes has an empty name"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Dice(**settings)


ONE_VALUE = "reduce is 'sum', but it has one value for all classes"


@pytest.mark.parametrize(
    ("objective", "form", "message"),
    [
        (Dice(classes="PER"), "softmax", "want `bind_classes`"),
        (Dice(classes="1,7"), "softmax", "classes has 7 but there are 3 classes"),
        (
            UnifiedFocal(classes="positive"),
            "softmax",
            "classes is positive, but background names a class too; want all",
        ),
        (
            SoftF1(classes="positive", exclude_class=0),
            "softmax",
            "classes is positive, but exclude_class names a class too; want all",
        ),
        (GeneralizedDice(reduce="sum"), "softmax", ONE_VALUE),
        (SigmoidF1(reduce="sum"), "multi-label", ONE_VALUE),
    ],
    ids=str,
)
def test_classes_that_do_not_fit_are_refused(objective, form, message):
    with pytest.raises(ValueError, match=message):
        objective.loss(*batch(form))


def test_classes_that_an_output_lacks_are_named():
    message = "classes has 'PRE', which output 'tags' has not: O, B-LOC"
    with pytest.raises(ValueError, match=message):
        Dice(output="tags", classes="PRE").bind_classes(NAMES, ["tags"])


def test_a_loss_of_ones_own_without_an_axis_is_of_the_batch_alone():
    @loss(kind="set")
    def own_error(logits, labels):
        return 1 - jax.nn.softmax(logits)[..., 0].mean()

    own = own_error.objective()
    logits, labels = jnp.zeros((2, 3, 2)), jnp.zeros((2, 3), int)
    assert float(own.loss(logits, labels)) == 0.5
    with pytest.raises(ValueError, match="over is 'element', but it takes no axis"):
        dataclasses.replace(own, over="element").loss(logits, labels)
    with pytest.raises(ValueError, match="it is defined for all classes only"):
        dataclasses.replace(own, classes="positive").loss(logits, labels)


def test_the_command_line_reads_sets_and_classes():
    assert objective_named("dice:over=element") == Dice(over="element")
    assert objective_named("dice:over=36") == Dice(over=36)
    loss = objective_named("dice:classes=PER,LOC,squared=true")
    assert loss == Dice(classes=("PER", "LOC"), squared=True)
    with pytest.raises(
        InputError, match=r"tversky has no 'squared'; .*; dice, .* have"
    ):
        objective_named("tversky:squared=true")
    with pytest.raises(InputError, match="over=row cannot be read; want batch or"):
        objective_named("dice:over=row")
