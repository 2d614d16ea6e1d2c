"""Sets, classes and reductions of the objectives of set losses."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dicejax.losses.declaration import REGISTRY
from dicejax.objectives import (
    CrossEntropy,
    Dice,
    GeneralizedDice,
    HardNegatives,
    Mined,
    SelfAdjustingDice,
    SigmoidF1,
    SoftF1,
    UnifiedFocal,
    WeightedSum,
    loss,
)
from dicejax.objectives.parsing import objective_named

from .losses import oracle

ROWS, TOKENS, CLASSES = 5, 4, 3
SETS = [name for name, declared in REGISTRY.items() if declared.kind == "set"]
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
    if over == "batch":
        return [np.s_[:]]
    if over == "element":
        return [np.s_[row, token] for row in range(ROWS) for token in range(TOKENS)]
    rows = 1 if over == "sequence" else over
    return [np.s_[start : start + rows] for start in range(0, ROWS, rows)]


def mean_over_sets(form, over, numbers, reduce):
    """Return the mean over labelled sets of dice, by the oracle."""
    logits, labels = batch(form)
    several = form == "multi-label"
    losses, counted = [], []
    for index in sets_of(over):
        # Every element is labelled in the oracle's sets, or left out of them.
        seen = labels[index] != -100
        if not seen.any():
            continue
        z, y = logits[index], labels[index]
        values = oracle.dice(z[None], y[None], multi_label=several)[numbers]
        has = seen.reshape(-1, CLASSES).any(0)[numbers] if several else values >= 0
        losses.append(np.where(has, values, 0))
        counted.append(has)
    return np.sum(losses) / (np.sum(counted) if reduce == "mean" else len(losses))


@pytest.mark.parametrize("form", FORMS)
def test_a_loss_is_the_mean_over_labelled_sets_and_over_classes(form):
    logits, labels = batch(form)
    losses = [
        Dice(over=over, **settings)
        for over in ("batch", "sequence", "element", 1, 2, 9)
        for settings in ({}, {"classes": "1,2", "reduce": "sum"})
    ]
    compute = jax.jit(lambda *batch: [dice.loss(*batch) for dice in losses])
    for dice, result in zip(losses, compute(logits, labels), strict=True):
        numbers = [1, 2] if dice.reduce == "sum" else [0, 1, 2]
        value = mean_over_sets(form, dice.over, numbers, dice.reduce)
        assert float(result) == pytest.approx(value, rel=1e-5), dice


def values_of_classes(name, logits, labels):
    """Return the loss of classes 1 and 2 of a softmax, by the public function."""
    function = REGISTRY[name].function
    if name == "soft_f1":
        return function(logits, labels, exclude_class=0)
    one_hot = np.where(labels[..., None] < 0, -100, labels[..., None] == [1, 2])
    if name in ("sigmoid_f1", "lovasz_hinge"):
        return function(logits[..., 1:], one_hot).mean()
    if name == "generalized_dice":  # weighs the classes that count alone
        p = jax.nn.softmax(logits)
        log_odds = jnp.log(p / (1 - p))[..., 1:]
        return function(log_odds, one_hot, multi_label=True)
    return function(logits, labels)[1:].mean()


def test_the_positive_classes_are_all_but_the_first():
    logits, labels = batch("softmax")
    names = [name for name in SETS if name != "unified_focal"]  # it names a class

    @jax.jit
    def losses_of(logits):
        classes = {"classes": "positive"}
        return [
            REGISTRY[name].function.objective(**classes).loss(logits, labels)
            for name in names
        ], [values_of_classes(name, logits, labels) for name in names]

    np.testing.assert_allclose(*losses_of(logits), rtol=2e-5)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", SETS)
def test_every_set_loss_takes_every_set_and_the_positive_classes(name, form):
    logits, labels = batch(form)
    cls = REGISTRY[name].function.objective
    for over in ("batch", "sequence", "element", "published", 2):
        for classes in ("all", "positive", "1"):
            objective = cls(over=over, classes=classes)
            try:
                value = jax.eval_shape(objective.loss, logits, labels)
            except ValueError as error:
                assert name == "unified_focal" and classes in str(error)
            else:
                assert value.shape == () and value.dtype == np.float32


NAMES = {"tags": ("O", "B-LOC", "B-PER", "I-PER")}


@pytest.mark.parametrize(
    ("names", "negative", "classes", "numbers"),
    [
        (NAMES["tags"], ["tags"], "PER,LOC", ("1", "2", "3")),
        (NAMES["tags"], ["tags"], ("B-PER",), ("2",)),
        (NAMES["tags"], ["tags"], (2, "O"), ("0", "2")),
        (NAMES["tags"], ["tags"], "positive", ("positive",)),
        (NAMES["tags"], ["tags"], "all", ("all",)),
        # Names come before numbers; without a negative class all are positive, but for
        # labels of 0 and 1.
        (("1", "2", "10"), [], "2,10", ("1", "2")),
        (NAMES["tags"], [], "positive", ("all",)),
        ((), [], "positive", ("positive",)),
    ],
)
def test_classes_are_named_or_numbered(names, negative, classes, numbers):
    dice = Dice(output="tags", classes=classes)
    bound = dice.bind_classes({"tags": names}, negative)
    assert bound.classes == numbers
    both = WeightedSum(parts=(CrossEntropy(), Dice(classes=classes)))
    both = both.bind_outputs(["tags"]).bind_classes({"tags": names}, negative)
    assert both.parts[1] == bound


SOFTMAX = batch("softmax")
ONE_VALUE = "reduce is 'sum', but it has one value for all classes"
NAMED_TOO = "classes is positive, but {} names a class too; want all"


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (lambda: Dice(over=0), "over is 0 but a set has 1 row or more"),
        (lambda: Dice(over="token"), "over is 'token' but must be 'batch'"),
        (lambda: Dice(reduce="max"), "reduce is 'max' but must be 'mean' or 'sum'"),
        (lambda: Dice(classes=""), "classes has an empty name"),
        (lambda: Dice(classes="PER").loss(*SOFTMAX), "want `bind_classes`"),
        (
            lambda: Dice(classes="1,7").loss(*SOFTMAX),
            "classes has 7 but there are 3 classes",
        ),
        (
            lambda: UnifiedFocal(classes="positive").loss(*SOFTMAX),
            NAMED_TOO.format("background"),
        ),
        (
            lambda: SoftF1(classes="positive", exclude_class=0).loss(*SOFTMAX),
            NAMED_TOO.format("exclude_class"),
        ),
        (lambda: GeneralizedDice(reduce="sum").loss(*SOFTMAX), ONE_VALUE),
        (lambda: SigmoidF1(reduce="sum").loss(*batch("multi-label")), ONE_VALUE),
        (
            lambda: Dice(output="tags", classes="PRE").bind_classes(NAMES, ["tags"]),
            "classes has 'PRE', which output 'tags' has not: O, B-LOC",
        ),
    ],
)
def test_what_does_not_fit_is_refused(attempt, message):
    with pytest.raises(ValueError, match=message):
        attempt()


def test_a_loss_of_ones_own_without_an_axis_is_of_the_batch_alone():
    @loss(kind="set")
    def own_error(logits, labels):
        return 1 - jax.nn.softmax(logits)[..., 0].mean()

    error = own_error.objective()
    logits, labels = jnp.zeros((2, 3, 2)), jnp.zeros((2, 3), int)
    assert float(error.loss(logits, labels)) == 0.5
    with pytest.raises(ValueError, match="over is 'element', but it takes no axis"):
        dataclasses.replace(error, over="element").loss(logits, labels)
    with pytest.raises(ValueError, match="it is defined for all classes only"):
        dataclasses.replace(error, classes="positive").loss(logits, labels)


@pytest.mark.parametrize(
    ("text", "objective"),
    [
        ("dice:over=element", Dice(over="element")),
        ("dice:over=36", Dice(over=36)),
        (
            "dice:classes=PER,LOC,squared=true",
            Dice(classes=("PER", "LOC"), squared=True),
        ),
        (
            "dsc:alpha=1,squared=false,over=element",
            SelfAdjustingDice(alpha=1.0, squared=False, over="element"),
        ),
        ("hard_negatives:minimum=3", HardNegatives(minimum=3.0)),
        (
            "mined:of=dsc:alpha=0.1:smooth=0.01,negatives_per_positive=2",
            Mined(
                of=SelfAdjustingDice(alpha=0.1, smooth=0.01), negatives_per_positive=2.0
            ),
        ),
    ],
)
def test_the_command_line_reads_settings_of_a_loss(text, objective):
    assert objective_named(text) == objective
