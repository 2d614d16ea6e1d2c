"""Signs that a run learnt nothing or diverged, and the setting to change."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jax.sharding import Mesh

from dicejax.config import Experiment, ScratchEncoder
from dicejax.data.examples import groups_of
from dicejax.data.pipeline import Batches
from dicejax.errors import Diverged, quote
from dicejax.metrics import quotients
from dicejax.metrics.scores import Scores, are_of_texts, beta_of, class_of, unanswered
from dicejax.objectives import name_of
from dicejax.tasks import (
    Classification,
    MultiLabelClassification,
    Prediction,
    QuestionAnswering,
    Tagging,
    Task,
    WordTagging,
    scoring,
)
from dicejax.tasks.described import predicted_text
from dicejax.tasks.judged import at_constraint, guarantee, observe, under
from dicejax.training.processes import is_main_process
from dicejax.training.run_folder import Run
from dicejax.training.setup import Setup

if TYPE_CHECKING:
    from dicejax.training.loop_state import LoopState

MOST_SKIPPED = 0.1
"""Share of skipped updates above which a run has diverged."""
LAST_SKIPPED = 5
"""Number of last updates that a run has diverged without."""

# Fewer updates than these teach an encoder little, however small the data.
UPDATES = {"pretrained": 200, "scratch": 1500}
LITTLE = 0.9
"""Share above which a training loss has hardly fallen, of its first value or of the
entropy of the classes."""
LOW = 0.1
"""Score below which the weights that a run began with may be as good."""
RATES = {"pretrained": 5e-5, "scratch": 1e-3}
"""Peak learning rates to begin with."""


def divergence(steps: int, skipped: int, skipped_in_a_row: int) -> str | None:
    """Say why a run of some updates has diverged; None if it has not.

    A run that skips updates has another budget than the others that it is compared
    with. The last in a row are those up to the end.

    >>> divergence(48, 5, 0)
    'no finite loss or gradient in 5 of 48 updates'
    >>> divergence(480, 5, 5)
    'no finite loss or gradient in 5 of 480 updates, the last 5 among them'
    >>> divergence(480, 48, 4) is None
    True
    """
    if skipped <= MOST_SKIPPED * steps and skipped_in_a_row < LAST_SKIPPED:
        return None
    last = f", the last {skipped_in_a_row} among them" if skipped_in_a_row > 1 else ""
    return f"no finite loss or gradient in {skipped:,} of {steps:,} updates{last}"


def lower_rate(experiment: Experiment) -> str:
    """Return the remedy for a run that diverged."""
    rate = experiment.optimizer.learning_rate
    other = ""
    if experiment.training.precision == "float16":
        other = " or --training.precision bfloat16"
    return (
        f"try a lower --optimizer.learning_rate than {rate:g}{other}, with --overwrite"
    )


def diverged(run: Run, experiment: Experiment, reason: str) -> Diverged:
    """Return the error of a run that diverged, whose folder then says why."""
    error = Diverged(f"{run.path}: diverged: {reason}; {lower_rate(experiment)}")
    if is_main_process():
        run.write_diverged(str(error))
    return error


def skipped_too_many(
    run: Run, experiment: Experiment, batches: Batches, step: int
) -> Diverged:
    """Return the error of too many skipped steps in a row, of which this is the last.

    The batch of the first is saved for inspection.
    """
    most = experiment.training.max_consecutive_skips
    first = step - most + 1
    file = f"not_finite_step_{first}.npz"
    if is_main_process():
        run.write_arrays(file, batches[first - 1].arrays)
    return diverged(
        run,
        experiment,
        f"no finite loss or gradient in {most} steps in a row, {first} to {step}; "
        f"the batch of step {first} is in {file}",
    )


def nothing_learnt(
    task: Task, predictions: Sequence[Any], scores: Scores
) -> str | None:
    """Say how predictions show that nothing was learnt; None if they do not.

    Nothing is learnt where the primary metric is 0, or where texts or words of several
    classes all get the same, or no question with an answer is answered right.
    """
    values: list[Any] = []  # an answer to a question is one, whatever its parts
    for guess in predictions:
        values += guess.values if isinstance(guess, Prediction) else [guess]
    if isinstance(task, Classification | WordTagging):
        unit = "text" if isinstance(task, Classification) else "word"
        gold = [name for name, row in scores.groups.items() if row.get("support")]
        if len(gold) > 1 and len(set(values)) == 1:
            return f"every {unit} is given the class {quote(values[0])}"
    if count := unanswered(scores.to_json()):
        return f"none of {count:,} questions with an answer is answered right"
    if scores.values[task.primary_metric] != 0:
        return None
    if not values:
        noun = "label" if isinstance(task, MultiLabelClassification) else "entity"
        return f"no {noun} is predicted in any of {len(predictions):,} examples"
    return f"none of {len(values):,} predictions is right"


def may_be_untaught(
    test: Mapping[str, Any],
    metric: str,
    losses: Sequence[float] = (),
) -> bool:
    """Return whether a run looks as if it had learnt nothing.

    Its training loss has hardly fallen, its score on test is low, or no constant answer
    has a lower one.
    """
    if len(losses) > 1 and losses[-1] > LITTLE * losses[0]:
        return True
    return test[metric] < LOW or constant_answer(test, metric) is not None


def untaught(
    setup: Setup,
    mesh: Mesh,
    predictions: Sequence[Any],
    scores: Scores,
    loop: LoopState,
    between: Callable[[], None],
) -> str | None:
    """Say how predictions on test or scores on dev show that nothing was learnt.

    Nothing is learnt either where no epoch scores better on dev than the weights that
    the run began with. These predict dev once more, and only where the run looks so:
    for others it costs nothing.
    """
    text = nothing_learnt(setup.experiment.task, predictions, scores)
    metric, best = setup.experiment.task.primary_metric, loop.best_dev_score
    looks_so = may_be_untaught(scores.to_json(), metric, loop.losses)
    if text is not None or best is None or not looks_so:
        return text
    params = setup.initial_params(mesh)
    (candidates,) = setup.decode(params, "dev", mesh, between=between).candidates
    before = setup.score(candidates, "dev")
    if best > before.values[metric]:
        return None
    first = 100 * before.values[metric]
    text = f"dev {before.name(metric)} is {100 * best:.2f} at best"
    return f"{text}, and was {first:.2f} before training"


def constant_scores(
    test: Mapping[str, Any], beta: float = 1.0
) -> dict[str, dict[str, float]]:
    """Return the scores of one answer for every text or word, by that class.

        F1 = 2 s / (1 + s),  accuracy = s,  Matthews = 0  for a share s of the class

    With another beta F-beta = (1 + beta^2) s / (1 + beta^2 s) is in place of F1. F1 is
    high without any skill where positives are frequent. It is that of the
    positive class, by default the last of two, or the mean over more. Empty for what
    has no classes.

    >>> rows = {"ok": {"support": 3}, "bad": {"support": 1}}
    >>> test = {"f1": 1.0, "accuracy": 1.0, "matthews": 1.0, "per_type": rows}
    >>> constant_scores(test)["bad"]
    {'f1': 0.4, 'accuracy': 0.25, 'matthews': 0.0}
    """
    groups = test.get("per_type", {}).items()
    counts = {name: x["support"] for name, x in groups if "support" in x}
    if len(counts) < 2 or "accuracy" not in test:
        return {}
    positive = test.get("positive", list(counts)[-1] if len(counts) == 2 else None)
    total, rows = sum(counts.values()), {}
    for name, count in counts.items():
        share = count / total if total else 0.0
        rows[name] = {"accuracy": share}
        if are_of_texts(test):
            of_class = quotients.f_beta(share, 1.0, beta)
            f = of_class * (name == positive) if positive else of_class / len(counts)
            rows[name] = {f"f{beta:g}": f, "accuracy": share, "matthews": 0.0}
    return rows


def best_constant(test: Mapping[str, Any], metric: str) -> tuple[str, float] | None:
    """Return the class that scores best as a constant answer; None without classes."""
    beta = beta_of(metric) or 1.0
    rows = constant_scores(test, beta)
    if (label := class_of(metric)) is not None:
        share = rows.get(label, {}).get("accuracy")
        return None if share is None else (label, quotients.f_beta(share, 1.0, beta))
    values = {name: row[metric] for name, row in rows.items() if metric in row}
    return max(values.items(), key=lambda pair: pair[1], default=None)


def constant_answer(test: Mapping[str, Any], metric: str) -> str | None:
    """Say what a constant answer scores, if a score is not above that.

    >>> rows = {"bad": {"support": 1}, "ok": {"support": 3}}
    >>> test = {"f1": 0.8, "accuracy": 0.7, "matthews": 0.0, "per_type": rows}
    >>> constant_answer(test, "f1")
    "Always answering 'ok' scores F1 85.71."
    """
    best = best_constant(test, metric)
    if best is None or test[metric] > best[1]:
        return None
    return always(best[0], {Scores.from_json(test).name(metric): best[1]})


def always(answer: str, scores: Mapping[str, float]) -> str:
    """Say what one answer for every text or word scores.

    >>> always("ok", {"F1": 0.9756, "accuracy": 0.9524})
    "Always answering 'ok' scores F1 97.56, accuracy 95.24."
    """
    values = (f"{name} {100 * value:.2f}" for name, value in scores.items())
    return f"Always answering {quote(answer)} scores {', '.join(values)}."


def remedy(experiment: Experiment, result: Mapping[str, Any]) -> str:
    """Return the likeliest cause why a finished run learnt nothing, and what to do.

    The result is the content of `result.json`: the cause has to fit the number of
    updates, the training losses and the labels of train.

    >>> from dicejax.data.synthetic import SyntheticNER
    >>> from dicejax.optimizers import AdamW
    >>> experiment = Experiment(
    ...     name="mine", data=SyntheticNER(), optimizer=AdamW(learning_rate=1e-3)
    ... )
    >>> remedy(experiment, {"steps": 150})
    '150 updates are few for random weights: try --training.epochs 30'
    """
    steps = result["steps"]
    from_scratch = isinstance(experiment.encoder, ScratchEncoder)
    kind = "scratch" if from_scratch else "pretrained"
    weights = "random weights" if from_scratch else "a pretrained encoder"
    rate, usual = experiment.optimizer.learning_rate, RATES[kind]
    if result.get("skipped") or rate > 10 * usual:
        lower = min(rate / 10, usual)
        return (
            f"the learning rate {rate:g} is high for {weights}: "
            f"try --optimizer.learning_rate {lower:g}"
        )
    if (cause := _cause_in_labels(experiment.task, result)) is not None:
        return cause
    losses = result.get("losses") or [math.nan]
    has_fallen = losses[-1] < losses[0] / 2
    if rate < usual / 3 and not has_fallen:
        return (
            f"the learning rate {rate:g} is low for {weights}: "
            f"try --optimizer.learning_rate {usual:g}"
        )
    if steps < UPDATES[kind]:
        epochs = math.ceil(experiment.training.epochs * UPDATES[kind] / max(steps, 1))
        return (
            f"{steps:,} updates are few for {weights}: try --training.epochs {epochs}"
        )
    counts = (result.get("labels") or {}).get("train") or {}
    fall = f"fell from {losses[0]:.3g} to {losses[-1]:.3g}"
    if has_fallen and _may_be_frequencies(experiment, losses[-1], counts):
        return (
            f"the loss {fall}, which class frequencies alone may explain: try "
            "--training.head_bias prior"
        )
    if has_fallen:
        rarest = min(counts, key=lambda label: counts[label], default=None)
        few = (
            "" if rarest is None else f" of {quote(rarest)} ({counts[rarest]:,} there)"
        )
        other = " or a pretrained encoder" * from_scratch
        return (
            f"train was learnt, with a loss that {fall}, and new texts were not: more "
            f"examples{few}{other} may help, not the rate"
        )
    loss = name_of(experiment.objective)
    if loss != "ce":
        return f"{loss} may not learn at this rate and length: try --loss ce"
    return (
        f"the learning rate {rate:g} may be low: "
        f"try --optimizer.learning_rate {3 * rate:g}"
    )


def _may_be_frequencies(
    experiment: Experiment, loss: float, counts: Mapping[str, int]
) -> bool:
    """Return whether class frequencies, learnt alone, may have this loss.

    Of texts that is their entropy; how many tokens a class has is not known here.
    """
    task, bias = experiment.task, experiment.training.head_bias
    kinds = {target.kind for target in task.targets(()).values()}
    if "positions" in kinds or bias == "prior" or name_of(experiment.objective) != "ce":
        return False
    if not isinstance(task, Classification):
        return True
    shares = np.array([*counts.values()]) / max(sum(counts.values()), 1)
    return loss > LITTLE * -float(np.sum(shares * np.log(shares)))


def _cause_in_labels(task: Task, result: Mapping[str, Any]) -> str | None:
    """Return a cause that lies in the labels of train; None if they are in order."""
    if result.get("labels") is None:  # a run of an earlier version
        return None
    counts = result["labels"]["train"]
    if not counts and not isinstance(task, QuestionAnswering):
        noun = "entity" if isinstance(task, Tagging) else "label"
        return f"train has no {noun}: label some of its examples"
    if len(counts) == 1 and isinstance(task, WordTagging):
        return f"train has only the label {quote(*counts)}: label others too"
    if not isinstance(task, Classification) or len(counts) != 2:
        return None
    test = result.get("test") or {}
    if not test.get("f1", 1.0):  # all are called negative
        return None
    positive = test.get("positive", list(test.get("per_type") or sorted(counts))[-1])
    rare = min(counts, key=lambda label: counts[label])
    if positive == rare or counts.get(positive, 0) <= sum(counts.values()) / 2:
        return None
    return (
        f"the positive class is {quote(positive)}, with {counts[positive]:,} of "
        f"{sum(counts.values()):,} texts of train: try --task.positive {quote(rare)}"
    )


def choose_threshold(
    task: Task,
    dev: tuple[Sequence[Any], Sequence[Any]],
    test: tuple[Sequence[Any], Sequence[Any]],
    labels: Sequence[str],
    epochs: int,
) -> tuple[Any, dict[str, Any], dict[str, np.ndarray]]:
    """Choose a threshold by examples of dev and their candidates, and score test's.

    Returns:
      The threshold, fields of a result, and arrays by test example.
    """
    fields: dict[str, Any] = {}
    arrays: dict[str, np.ndarray] = {}
    chosen: Any
    rule = task.threshold_rule
    if rule is None or rule.constraint is None:
        chosen = task.tune(*dev, labels)
    else:
        chosen = guarantee(rule, task.judge(dev[0], labels, dev[1]), epochs)
    decided = [task.decide(each, chosen.threshold) for each in test[1]]
    if rule is not None and rule.constraint is not None:
        judged = under(rule.constraint, task.judge(test[0], labels, test[1]))
        if test[0] != dev[0]:  # which shows nothing of what it chose itself
            observed = observe(chosen, judged)
            counts = {label: share.to_json() for label, share in observed.items()}
            fields["constraint_on_test"] = counts
        pairs = zip(test[0], decided, strict=True)
        counted = [scoring.count(task, *pair, judged) for pair in pairs]
        shares = at_constraint(chosen, counted)
        arrays["at_constraint"] = shares
        value = quotients.ratio(*shares.sum(axis=(0, 1)))
        fields["at_constraint"] = {"name": chosen.constraint.other, "value": value}
    fields["threshold"] = dataclasses.asdict(chosen)
    if chosen.threshold is not None:
        with_it, statistics = scoring.score(task, test[0], decided, labels)
        fields["test_with_tuned_threshold"] = with_it.to_json()
        if statistics is not None:
            arrays["with_tuned_threshold"] = statistics
    return chosen, fields, arrays


def by_example(examples: Sequence[Any], decided: Sequence[Any]) -> dict[str, Any]:
    """Return the predictions in words, and the documents if the data have some."""
    pairs = zip(examples, decided, strict=True)
    arrays = {"predictions": np.array([predicted_text(*pair) for pair in pairs])}
    groups = groups_of(examples)
    return arrays if groups is None else {**arrays, "groups": groups}
