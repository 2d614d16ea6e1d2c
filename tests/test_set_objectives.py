"""Sets, classes and reductions of the objectives of set losses."""

import dataclasses
import json
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from dicejax.config import from_json
from dicejax.errors import InputError
from dicejax.losses.declaration import REGISTRY
from dicejax.objectives import (
    CrossEntropy,
    Dice,
    DSCOfficial,
    GeneralizedDice,
    Gold,
    HardNegatives,
    Jaccard,
    MatthewsCorrelation,
    Mined,
    SelfAdjustingDice,
    SoftF1,
    Tversky,
    UnifiedFocal,
    WeightedSum,
    loss,
)
from dicejax.objectives.parsing import objective_named
from dicejax.tasks import Target

from .losses import oracle
from .losses.binding import bound
from .losses.peers import adapters

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


def mean_over_sets(form, over, numbers, average, weights=1.0):
    """Return the mean over labelled sets of dice with smooth 1, by the oracle."""
    logits, labels = batch(form)
    several = form == "multi-label"
    weights = np.broadcast_to(weights, CLASSES)[numbers]
    weights = weights / weights.mean()
    losses, counted = [], []
    for index in sets_of(over):
        # Every element is labelled in the oracle's sets, or left out of them.
        seen = labels[index] != -100
        if not seen.any():
            continue
        z, y = logits[index], labels[index]
        if average == "micro":
            counts = oracle.counts(z[None], y[None], multi_label=several)
            shared, predicted, actual = (x[numbers].sum() for x in counts)
            losses.append(1 - (2 * shared + 1) / (predicted + actual + 1))
            continue
        settings = {"multi_label": several, "smooth": 1.0}
        values = oracle.dice(z[None], y[None], **settings)[numbers]
        has = seen.reshape(-1, CLASSES).any(0)[numbers] if several else values >= 0
        losses.append(np.where(has, weights * values, 0))
        counted.append(weights * has)
    return np.sum(losses) / (len(losses) if average == "micro" else np.sum(counted))


TWO = {"exclude_class": "0"}
COUNTS = np.array([30.0, 6.0, 2.0])


def weighed(scheme, form, counts=COUNTS):
    """Return settings with counts of the classes, of 0s and 1s if multi-label."""
    if form == "multi-label":
        counts = np.stack([100 - counts, counts], axis=-1).ravel()
    return {"class_weights": scheme, "class_counts": tuple(map(float, counts))}


@pytest.mark.parametrize("form", FORMS)
def test_a_loss_is_the_mean_over_labelled_sets_and_over_classes(form):
    logits, labels = batch(form)
    losses = [
        Dice(over=over, smooth=1.0, **settings)
        for over in ("batch", "sequence", "element", 1, 2, 9)
        for settings in (
            {},
            TWO,
            weighed("inverse", form),
            TWO | weighed("inverse_square_root", form),
            {"average": "micro"},
            TWO | {"average": "micro"},
        )
    ]
    compute = jax.jit(lambda *batch: [dice.loss(*batch) for dice in losses])
    for dice, result in zip(losses, compute(logits, labels), strict=True):
        numbers = [1, 2] if dice.exclude_class else [0, 1, 2]
        powers = {"none": 0, "inverse": -1, "inverse_square_root": -0.5}
        weights = COUNTS ** powers[dice.class_weights]
        value = mean_over_sets(form, dice.over, numbers, dice.average, weights)
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


def test_the_negatives_are_the_first_class():
    logits, labels = batch("softmax")
    names = [name for name in SETS if name != "unified_focal"]  # it names a class

    @jax.jit
    def losses_of(logits):
        left_out = {"exclude_class": "negatives"}
        return [
            REGISTRY[name].function.objective(**left_out).loss(logits, labels)
            for name in names
        ], [values_of_classes(name, logits, labels) for name in names]

    np.testing.assert_allclose(*losses_of(logits), rtol=2e-5)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", SETS)
def test_every_set_loss_takes_every_set_and_leaves_classes_out(name, form):
    logits, labels = batch(form)
    cls = REGISTRY[name].function.objective
    choices = [(), "negatives", "0,2"] if name != "unified_focal" else [()]
    for over in ("batch", "sequence", "element", 2):
        for left_out in choices:
            objective = cls(over=over, exclude_class=left_out)
            value = jax.eval_shape(objective.loss, logits, labels)
            assert value.shape == () and value.dtype == np.float32


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", SETS)
def test_equal_weights_and_sets_of_a_single_class_change_nothing(name, form):
    logits, labels = batch(form)
    cls = REGISTRY[name].function.objective
    pairs = []
    if "class_weights" in REGISTRY[name].takes:
        equal = weighed("effective_number", form, np.full(CLASSES, 7.0))
        pairs.append(({"average": "none"}, {"average": "none"} | equal))
    if "average" in REGISTRY[name].takes:
        single = {"exclude_class": "0,2"}
        pairs.append((single, single | {"average": "micro"}))
    assert pairs or name in ("generalized_dice", "unified_focal")
    plain, changed = (
        [cls(over="sequence", **pair[i]).loss(logits, labels) for pair in pairs]
        for i in (0, 1)
    )
    assert np.isfinite(plain).all()
    assert np.all(plain)
    np.testing.assert_allclose(changed, plain, rtol=1e-6)


def test_a_class_left_out_has_no_gradient_and_the_rarest_class_the_most():
    logits, labels = np.zeros((4, 3), np.float32), np.eye(4, 3, dtype=int)
    for average in ("none", "macro", "micro"):
        dice = Dice(exclude_class=(0,), average=average)
        slopes = np.abs(jax.grad(dice.loss)(logits, labels))
        assert not slopes[:, 0].any()
        assert slopes[:, 1:].all()
    dice = Dice(**weighed("inverse", "multi-label"))
    slopes = np.abs(jax.grad(dice.loss)(logits, labels)).sum(0)
    np.testing.assert_allclose(slopes / slopes[2], 2 / COUNTS, rtol=1e-6)


def test_counts_of_the_training_data_weigh_classes():
    assert bound(Dice(), {"tags": COUNTS}).class_counts == ()
    dice = Dice(class_weights="inverse", output="tags")
    with pytest.raises(ValueError, match="class_counts is empty"):
        dice.loss(*SOFTMAX)
    counted = bound(dice, {"tags": COUNTS})
    assert counted == Dice(output="tags", **weighed("inverse", "softmax"))


@pytest.mark.parametrize("form", FORMS)
def test_micro_sets_take_soft_labels(form):
    logits, labels = batch(form)
    soft = np.random.default_rng(1).dirichlet(np.ones(CLASSES), (ROWS, TOKENS))
    seen = labels != -100
    # Soft labels are of all classes of an element.
    seen = seen if form == "softmax" else seen.any(-1)
    dice = Dice(average="micro", smooth=1.0)
    value = dice.loss(logits, Gold(labels, jnp.asarray(soft, float)))
    p = scipy.special.softmax(logits, -1)
    p = p if form == "softmax" else scipy.special.expit(logits)
    shared, both = (p * soft)[seen].sum(), (p + soft)[seen].sum()
    assert float(value) == pytest.approx(1 - (2 * shared + 1) / (both + 1), rel=1e-6)


@pytest.mark.parametrize("kind", ["DiceLoss", "GeneralizedDiceLoss", "TverskyLoss"])
def test_weights_and_classes_that_count_are_monais(kind):
    torch = pytest.importorskip("torch")
    logits, labels = batch("softmax")
    logits, labels = logits[:3].astype(float), labels[:3]
    # Generalised Dice is smoothed in units of the rarest class's counts.
    smooth, mean = float(kind != "GeneralizedDiceLoss"), 1.0
    theirs = {"include_background": False, "batch": True, "smooth": smooth}
    ours = {"exclude_class": "negatives", "smooth": smooth}
    objective = {"DiceLoss": Dice, "TverskyLoss": Tversky}.get(kind, GeneralizedDice)
    if kind == "DiceLoss":
        weights = np.array([3.0, 0.5])
        theirs["weight"], mean = torch.tensor(weights), weights.mean()
        counts = (1.0, *map(float, 1 / weights))
        ours |= {"class_weights": "inverse", "class_counts": counts}
    mine = adapters.ours(objective(**ours).loss, logits, labels)
    peer = adapters.of_monai(kind, logits, labels, **theirs)
    adapters.assert_same(adapters.scaled(mine, mean), peer, rtol=2e-6, atol=1e-8)


def test_classes_that_count_are_smps():
    logits, labels = batch("softmax")
    logits, labels = logits[:3].astype(float), labels[:3]
    settings = {"classes": [1, 2], "smooth": 0.5}
    theirs = adapters.of_smp("DiceLoss", logits, labels, "multiclass", **settings)
    mine = adapters.ours(Dice(exclude_class="0", smooth=1.0).loss, logits, labels)
    adapters.assert_same(mine, theirs, **adapters.SINGLE)


NAMES = {"tags": ("O", "B-LOC", "B-PER", "I-PER")}


@pytest.mark.parametrize(
    ("names", "negative", "left_out", "numbers"),
    [
        (NAMES["tags"], ["tags"], "PER,LOC", ("1", "2", "3")),
        (NAMES["tags"], ["tags"], ("B-PER",), ("2",)),
        (NAMES["tags"], ["tags"], (2, "O"), ("0", "2")),
        (NAMES["tags"], ["tags"], "negatives", ("negatives",)),
        (NAMES["tags"], ["tags"], "negatives,LOC", ("negatives", "1")),
        (NAMES["tags"], ["tags"], (), ()),
        # Names come before numbers; without a negative class none is left out, but for
        # labels of 0 and 1.
        (("1", "2", "10"), [], "2,10", ("1", "2")),
        (NAMES["tags"], [], "negatives", ()),
        ((), [], "negatives", ("negatives",)),
    ],
)
def test_classes_left_out_are_named_or_numbered(names, negative, left_out, numbers):
    dice = Dice(output="tags", exclude_class=left_out)
    targets = {"tags": Target("classes", tuple(names), has_negative=bool(negative))}
    fitted = dice.bind(targets)
    assert fitted.exclude_class == numbers
    both = WeightedSum(parts=(CrossEntropy(), Dice(exclude_class=left_out)))
    assert both.bind(targets).parts[1] == fitted


SOFTMAX, INVERSE = batch("softmax"), weighed("inverse", "softmax")


def of_tags(left_out):
    dice = Dice(output="tags", exclude_class=left_out)
    return dice.bind({"tags": Target("classes", NAMES["tags"], has_negative=True)})


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (lambda: Dice(over=0), "over is 0 but a set has 1 row or more"),
        (lambda: Dice(over="token"), "over is 'token' but must be 'batch'"),
        (lambda: Dice(average="sum"), "'sum' but must be 'none', 'macro' or 'micro'"),
        (lambda: Dice(class_weights="rare"), "class_weights is 'rare' but must be"),
        (lambda: Dice(average="micro", **INVERSE).loss(*SOFTMAX), "no class_weights"),
        (
            lambda: MatthewsCorrelation(variant="multiclass", **INVERSE).loss(*SOFTMAX),
            "class_weights and average need a loss for each class",
        ),
        (lambda: GeneralizedDice(average="macro"), "generalized_dice takes no average"),
        (lambda: UnifiedFocal(class_weights="inverse"), "takes no class_weights"),
        (lambda: UnifiedFocal(exclude_class="0"), "unified_focal takes no exclude_cl"),
        (lambda: Dice(exclude_class=""), "exclude_class has an empty name"),
        (lambda: Dice(exclude_class="PER").loss(*SOFTMAX), "want `bind`"),
        (lambda: Dice(exclude_class="7").loss(*SOFTMAX), "but there are 3 classes"),
        (lambda: of_tags("PRE"), "'PRE', which output 'tags' lacks: O, B-LOC"),
        (lambda: of_tags("negative"), "did you mean negatives"),
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
    with pytest.raises(ValueError, match="function of own_error takes no axis"):
        dataclasses.replace(error, over="element")
    with pytest.raises(ValueError, match="function of own_error takes no exclude_cl"):
        dataclasses.replace(error, exclude_class="negatives")


@pytest.mark.parametrize(
    ("text", "objective"),
    [
        ("dice:over=element", Dice(over="element")),
        ("dice:over=36", Dice(over=36)),
        ("dice:class_weights=inverse", Dice(class_weights="inverse")),
        ("jaccard:average=micro", Jaccard(average="micro")),
        ("dice:exclude_class=O,MISC", Dice(exclude_class=("O", "MISC"))),
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


ALL = {"classes": ["all"], "reduce": "mean", "weights": "none"}
PUBLISHED = {"classes": ["published"], "reduce": "sum", "weights": "none"}


@pytest.mark.parametrize(
    ("said", "now"),
    [
        (ALL, Dice()),
        (ALL | {"classes": ["positive"]}, Dice(exclude_class="negatives")),
        (ALL | {"reduce": "micro", "over": 3}, Dice(average="micro", over=3)),
        (ALL | {"weights": "inverse"}, Dice(class_weights="inverse")),
        (ALL | {"exclude_class": None, "average": "macro"}, SoftF1()),
        (ALL | {"exclude_class": 0}, SoftF1(exclude_class="0", average="none")),
        (PUBLISHED | {"over": "published"}, DSCOfficial()),
        (PUBLISHED | {"over": 36}, DSCOfficial(over=36)),
        (ALL | {"classes": ["PER"]}, "classes is ['PER']; it is now exclude_class"),
        (ALL | {"reduce": "sum"}, "reduce is sum; only dsc-official"),
    ],
)
def test_what_an_earlier_version_recorded_is_the_same_objective(said, now):
    cls = Dice if isinstance(now, str) else type(now)
    objective = {"type": cls.__name__} | said
    content = {"name": "it", "data": {"type": "SyntheticNER"}, "objective": objective}
    if isinstance(now, str):
        with pytest.raises(InputError, match=re.escape(now)):
            from_json(json.dumps(content))
    else:
        assert from_json(json.dumps(content)).objective == now
