"""The card of an exported model: README.md, as the Hugging Face hub reads it.

Format: https://huggingface.co/docs/hub/model-cards, written by huggingface_hub.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from etils import epath
from huggingface_hub import EvalResult, ModelCardData

from dicejax.config import Experiment
from dicejax.formats import FileSource
from dicejax.io import json_text
from dicejax.metrics.guarantees import guarantee_of
from dicejax.metrics.scores import Scores, heading
from dicejax.objectives import names_of
from dicejax.study.compare.finding import CHOICE
from dicejax.study.compare.record import FILE, read
from dicejax.study.report.document import Lines, Section, markdown_of, plain
from dicejax.study.sentences import paragraphs, sentences
from dicejax.tasks import Classification
from dicejax.training.candidate import candidate_of
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
    path, texts = getattr(experiment.encoder, "path", None), sentences("card")
    untaught = ""
    if result.nothing_learnt:
        untaught = texts.untaught(result.nothing_learnt)
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
    encoder = None if path is None else Path(path).name
    (name,) = names_of([candidate_of(experiment)])
    begin = texts.begin(encoder or RANDOM, name, run.network().text_summary)
    labels = _labels(result)
    sections = [
        Section("scores", "Scores on test", tables=_table(scores)),
        Section("loss", "Why this loss", _verdict(run)),
        Section("threshold", "Threshold", _threshold(experiment, result)),
        Section("calibration", "Calibration", paragraphs(texts.calibration(result))),
        Section("data", "Data", _data(experiment, result), tables=labels),
        Section("limits", "Limits", paragraphs(texts.limits(bool(labels)))),
        Section("licence", "Licence", paragraphs(texts.licence(license, encoder))),
    ]
    warning = f"**{plain(untaught.capitalize())}.**\n\n" if untaught else ""
    return (
        f"---\n{data.to_yaml()}\n---\n\n# {plain(experiment.name)}\n\n{warning}"
        f"{plain(begin)} {texts.opens(opening(opener))}\n\n"
        f"{markdown_of([x for x in sections if x.text or x.tables])}"
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


def _labels(result: Result) -> dict[str, Lines]:
    """Return the numbers of examples with each label; none where they are unknown."""
    counts = result.labels or {}
    train = counts.get("train", {})
    names = {name for of_split in counts.values() for name in of_split}
    ranked = sorted(names, key=lambda name: (-train.get(name, 0), name))
    lines = [
        {"label": x, **{split: f"{row.get(x, 0):,}" for split, row in counts.items()}}
        for x in ranked[:MOST_ROWS]
    ]
    caption = sentences("card").counts(len(ranked) - len(lines))
    return {caption: lines} if lines else {}


def _table(scores: Scores) -> dict[str, Lines]:
    rows = scores.rows()
    lines = [
        {"": label, **{heading(name): _cell(x) for name, x in row.items()}}
        for label, row in list(rows.items())[:MOST_ROWS]
    ]
    return {sentences("card").scores(len(rows) - len(lines)): lines}


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
        if place in [each.folder for each in row.runs]:
            of_row = sentences("card").of_comparison(row, comparison)
            return [*_chosen(folder.parent), comparison.verdict, *paragraphs(of_row)]
    return []


def _chosen(folder: epath.Path) -> list[str]:
    """Say how `dicejax choose` came to a model, if it did."""
    if not (folder / CHOICE).exists():
        return []
    record = json_text.value_of(json_text.read(folder / CHOICE), dict)
    settings = {json.dumps(trial["setting"]) for trial in record["trials"]}
    return [sentences("card").chosen(len(settings)), record["sentence"]]


def _threshold(experiment: Experiment, result: Result) -> list[str]:
    """Return the lines about the threshold and its guarantee."""
    rule = experiment.task.threshold_rule
    labels = (result.labels or {}).get("train", {})
    if isinstance(experiment.task, Classification) and len(labels) > 2:
        rule = None  # the likeliest of several
    guarantee = guarantee_of(result.threshold)
    return paragraphs(sentences("card").threshold(result, rule, guarantee))


def _data(experiment: Experiment, result: Result) -> list[str]:
    reader, seed = type(experiment.data).__name__, experiment.training.seed
    of_test = test_checksum(result.to_json())
    values = _files(experiment), reader, of_test, seed
    return paragraphs(sentences("card").data(result, *values))
