"""The card of an exported model: README.md, as the Hugging Face hub reads it.

Format: https://huggingface.co/docs/hub/model-cards, written by huggingface_hub.
"""

from __future__ import annotations

import re
from pathlib import Path

from huggingface_hub import EvalResult, ModelCardData

from dicejax.config import Experiment
from dicejax.formats import FileSource
from dicejax.metrics.guarantees import guarantee_of
from dicejax.metrics.scores import Scores, heading
from dicejax.objectives import names_of
from dicejax.study.compare.record import FILE, read
from dicejax.study.report.document import Section, TextTable, markdown_of, plain
from dicejax.tasks import Classification
from dicejax.training.export import opening
from dicejax.training.identity import test_checksum
from dicejax.training.run_folder import Run
from dicejax.training.train import Result

PIPELINES = {
    "ForTokenClassification": "token-classification",
    "ForSequenceClassification": "text-classification",
    "ForQuestionAnswering": "question-answering",
    "SentenceTransformer": "text-classification",
}
HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
RANDOM = "random weights"
MOST_ROWS = 50  # of a table: `dicejax evaluate` prints all
LIMITS = (
    "It predicts the labels of its training data and no others.",
    "The scores are those of one test split. Texts of other sources, times or "
    "languages were not tested, nor was whether its errors fall on some people more "
    "than others.",
    "dicejax reads a text that is longer than the encoder allows in windows; other "
    "programs may cut it off.",
)
NO_LICENCE = "The licence of this model is not stated: no --license was given."


def model_card(
    folder: str,
    opener: str,
    *,
    license: str | None = None,
    language: str | None = None,
) -> str:
    """Return the card of a finished run whose export a class of PyTorch opens.

    Its scores are those of the best checkpoint on test. If the run is part of a
    comparison that has a `comparison.json`, its verdict is there too. Licence and
    language are not guessed: the hub's identifiers, or left out.

    Raises:
      InputError: the run or the comparison cannot be read.
    """
    run = Run.open(folder)
    result, experiment = Result.read(run), run.experiment()
    scores = Scores.from_json(result.test or {})
    pipeline = next((x for end, x in PIPELINES.items() if opener.endswith(end)), None)
    path = getattr(experiment.encoder, "path", None)
    untaught = f"nothing learnt: {reason}" if (reason := result.nothing_learnt) else ""
    is_hub_id = path is not None and HUB_ID.fullmatch(path) and not Path(path).exists()
    evaluated = [
        EvalResult(
            task_type=pipeline or "other",
            dataset_type=experiment.name,
            dataset_name=_files(experiment)["test"],
            dataset_split="test",
            metric_type=name,
            metric_name=f"{scores.name(name)}{untaught and f' ({untaught})'}",
            metric_value=round(value, 6),
        )
        for name, value in _header_scores(scores).items()
    ]
    data = ModelCardData(
        model_name=experiment.name,
        language=language,
        license=license,
        base_model=path if is_hub_id else None,
        library_name=opening(opener).partition(".")[0].replace("_", "-"),
        pipeline_tag=pipeline,
        tags=["dicejax", experiment.objective.short_name],
        eval_results=evaluated or None,
    )
    encoder = RANDOM if path is None else Path(path).name
    (name,) = names_of([experiment.objective])
    begin = f"Trained by dicejax from {encoder}, with the loss {name}."
    if (summary := run.network().text_summary) is not None:
        begin += f" Each text is read as {summary}."
    sections = [
        Section("scores", "Scores on test", tables=[_table(scores)]),
        Section("loss", "Why this loss", _verdict(run)),
        Section("threshold", "Threshold", _threshold(experiment, result)),
        Section("calibration", "Calibration", _calibration(result)),
        Section("data", "Data", _data(experiment, result), tables=_labels(result)),
        Section("limits", "Limits", LIMITS),
        Section("licence", "Licence", _licence(license, encoder)),
    ]
    warning = f"**{plain(untaught.capitalize())}.**\n\n" if untaught else ""
    return (
        f"---\n{data.to_yaml()}\n---\n\n# {plain(experiment.name)}\n\n{warning}"
        f"{plain(begin)} `{opening(opener)}` opens this folder.\n\n"
        f"{markdown_of([x for x in sections if x.text or x.tables])}\n"
    )


def _header_scores(scores: Scores) -> dict[str, float]:
    """Return the scores for the hub; of classes with their macro F1 in any case."""
    values = dict(scores.values)
    rows = [row["f1"] for row in scores.groups.values() if "f1" in row]
    if scores.of_texts and len(rows) == 2:  # F1 is that of the positive class
        values["macro_f1"] = sum(rows) / len(rows)
    return values


def _files(experiment: Experiment) -> dict[str, str]:
    """Return the names of the files of each split, or that of the data set."""
    data = experiment.data
    if not isinstance(data, FileSource):
        name = getattr(data, "name", experiment.name)
        return dict.fromkeys(("train", "dev", "test"), name)
    files = {"train": data.train}
    files |= {name: getattr(data, name) or "" for name in ("dev", "test")}
    return {name: file or f"held out of {data.train}" for name, file in files.items()}


def _labels(result: Result) -> list[TextTable]:
    """Return the numbers of examples with each label; none where they are unknown."""
    counts = result.labels or {}
    train = counts.get("train", {})
    names = {name for of_split in counts.values() for name in of_split}
    ranked = sorted(names, key=lambda name: (-train.get(name, 0), name))
    lines = [
        {"label": x, **{split: f"{row.get(x, 0):,}" for split, row in counts.items()}}
        for x in ranked[:MOST_ROWS]
    ]
    rest = len(ranked) - len(lines)
    caption = "Examples with each label" + f"; {rest} more are left out" * (rest > 0)
    return [TextTable(caption, lines)] if lines else []


def _licence(license: str | None, encoder: str) -> list[str]:
    mine = NO_LICENCE if license is None else f"This model: {license}."
    source = "The encoder began with random weights"
    if encoder != RANDOM:
        source = (
            f"The licence of the encoder it was trained from, {encoder}, is not known"
        )
    return [mine, f"{source}; the licence of the data is not known to dicejax."]


def _table(scores: Scores) -> TextTable:
    rows = scores.rows()
    lines = [
        {"": label, **{heading(name): _cell(x) for name, x in row.items()}}
        for label, row in list(rows.items())[:MOST_ROWS]
    ]
    rest = len(rows) - len(lines)
    return TextTable(
        "In percent" + f"; {rest} more rows are left out" * (rest > 0), lines
    )


def _cell(value: float | None) -> str:
    if isinstance(value, float):
        return f"{100 * value:.2f}"
    return "" if value is None else f"{value:,}"


def _verdict(run: Run) -> list[str]:
    """Return the verdict of the comparison that a run is part of, if there is one."""
    folder = run.path.parent.parent
    if not (folder / FILE).exists():
        return []
    comparison = read(str(folder))
    place = run.path.relative_to(folder).as_posix()
    for row in comparison.rows:
        if place not in [each.folder for each in row.runs]:
            continue
        lines = [comparison.verdict]
        if crossed := row.against and row.against.crossed:
            ends = crossed.mean, crossed.low, crossed.high
            mean, low, high = (f"{100 * x:+.2f}" for x in ends)
            lines.append(
                f"{row.loss} minus {comparison.rows[0].loss}, {len(row.runs)} seeds: "
                f"{mean} ({low} to {high})."
            )
        if (looks := len(comparison.looks)) > 1:
            lines.append(f"The runs were looked at {looks} times.")
        return lines
    return []


def _threshold(experiment: Experiment, result: Result) -> list[str]:
    if result.threshold is None:
        labels = (result.labels or {}).get("train", {})
        rule = experiment.task.threshold_rule
        is_likeliest = isinstance(experiment.task, Classification) and len(labels) > 2
        if rule is None or is_likeliest:
            return ["None: the likeliest answer is taken."]
        return [f"{rule.default:g}, the default: none was chosen on dev."]
    guarantee = guarantee_of(result.threshold)
    if guarantee is None:
        return [f"Chosen on dev: {result.threshold['threshold']}. It promises nothing."]
    observed = [f"{guarantee.compare(result.observed)}."] if result.observed else []
    return [f"Chosen on dev: {guarantee}.", *observed]


def _calibration(result: Result) -> list[str]:
    if result.calibration is None:
        return []
    temperature = result.calibration["temperature"]
    lines = [
        f"Logits divided by {temperature:.4g}, the temperature fitted on dev, give the "
        "probabilities of dicejax predict."
    ]
    if (threshold := result.calibration.get("threshold")) is not None:
        lines.append(f"Among them the threshold is {threshold}.")
    if (scores := result.calibration_on_test) is not None:
        lines.append(f"On test: {scores}.")
    return lines


def _data(experiment: Experiment, result: Result) -> list[str]:
    sizes = (result.examples or {}).items()
    counts = ", ".join(f"{n:,} {split}" for split, n in sizes)
    names = "; ".join(f"{split}: {x}" for split, x in _files(experiment).items())
    versions = ", ".join(f"{name} {x}" for name, x in result.versions.items())
    return [
        f"{counts} examples ({names}), read by {type(experiment.data).__name__}. "
        f"Checksum of test: {test_checksum(result.to_json())}.",
        f"Trained for {result.steps:,} updates on {result.devices} x "
        f"{result.device_kind}, seed {experiment.training.seed}, with {versions}.",
    ]
