"""A run's folder.

experiment.json   the resolved experiment
labels.json       the labels the network chooses from
encoder.json      the architecture of the encoder
tokenizer.json    the tokenizer
data.json         checksums of the data as read and of the encoder
metrics.jsonl     one JSON object per line: losses, rates, scores
analysis.jsonl    measurements of the gradients of some steps, if asked
tensorboard/      the same for TensorBoard, if asked
wandb_id.txt      id of the run at Weights & Biases, with its files in wandb/, if asked
checkpoints/      the last states and the best
test_statistics.npz   statistics, prediction and perhaps group of each example
test_scores.npz   histograms of the scores on test, see `metrics.score_counts`
control.*         a control in the place of the checkpoints, see `restored`
baselines.json    scores of moved decisions, see `comparison.baselines`; and
baselines.npz     their per-example statistics
result.json       the final scores; written last, so it marks a finished run
diverged.json     instead of it: why training was given up
SHA256SUMS        the SHA-256 of all these but the boards and checkpoints; a file that
                  has changed since is refused
"""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
from etils import epath
from tokenizers import Tokenizer

from dicejax import config
from dicejax.data import tokenize
from dicejax.errors import Flaw, InputError, first_line, quote
from dicejax.formats import FileSource
from dicejax.io import files, json_text
from dicejax.metrics.scores import are_of_texts
from dicejax.models import huggingface
from dicejax.models.encoder import EncoderConfig
from dicejax.models.network import Network
from dicejax.training.checkpoint_folder import steps
from dicejax.training.encoded import Encoded, identity_of
from dicejax.training.identity import (
    TOKENIZER,
    WEIGHTS,
    Identity,
    tokenizer_checksum,
    with_checksums,
)
from dicejax.training.logging import finite

RESULT = "result.json"
STATISTICS = "test_statistics.npz"
SCORE_COUNTS = "test_scores.npz"
BASELINES = "baselines.json"
BASELINE_STATISTICS = "baselines.npz"
DIVERGED = "diverged.json"
EXPERIMENT = "experiment.json"
LABELS = "labels.json"
ENCODER = "encoder.json"
DATA = "data.json"
CHECKPOINTS = "checkpoints"
OPEN = ("task.positive", "encoder.pooling")
"""Settings that a run fixes where an experiment leaves them open."""
PLACES = (
    *(f"data.{name} " for name in ("dir", "train", "dev", "test")),
    *(f"encoder.{name} " for name in ("path", "revision")),
)
"""Settings that say where data and encoder are; what they are has checksums."""

T = TypeVar("T", dict[str, Any], list[Any])


@dataclasses.dataclass(frozen=True)
class Run:
    """A run folder, local or anything etils.epath opens.

    Whatever reads a file raises an InputError where it is missing, damaged, or changed.

    Attributes:
      path: the folder.
      continues: whether it holds the beginning of the run.
    """

    path: epath.Path
    continues: bool = False

    @classmethod
    def create(
        cls, path: str, experiment: config.Experiment, *, overwrite: bool = False
    ) -> Run:
        """Return the folder for an experiment, new or with a run of it.

        The folder is made when something is first written. Only then is the run that it
        holds deleted, where it is to be overwritten.

        Raises:
          InputError: the folder holds a run of another experiment and `overwrite` is
            not set, or holds something that is no run; or a file of the run has
            changed.
        """
        run = cls(epath.Path(path))
        if not run.path.exists():
            return run
        if not run.path.is_dir():
            raise InputError(f"{path}: is a file; name another folder with --out")
        if not (run.path / EXPERIMENT).exists():
            if files.entries(run.path):
                raise InputError(
                    f"{path}: is not empty and holds no run; name another --out"
                )
            return run
        if overwrite:
            return run
        before = run.experiment()
        changes = config.differences(before, experiment)
        more = [text for text in changes if not text.startswith(OPEN)]
        if len(more) < len(changes):  # what was open may be named since
            begun = config.differences(*map(run.as_begun, (before, experiment)))
            more += [text for text in begun if text.startswith(OPEN)]
        if more and not run._is_moved(more, experiment):
            state = "a finished" if run.is_finished else "an unfinished"
            raise InputError(
                f"{path}: holds {state} run with other settings: {'; '.join(changes)}; "
                "name another folder with --out, or replace it with --overwrite"
            )
        for name in (LABELS, ENCODER, tokenize.FILE):  # later commands read them
            files.read_checked(run.path, name)
        return dataclasses.replace(run, continues=True)

    def _is_moved(self, changes: list[str], experiment: config.Experiment) -> bool:
        """Whether changed settings name the same data and encoder in another place."""
        before = self.identity()
        if before is None or not all(text.startswith(PLACES) for text in changes):
            return False
        now = identity_of(experiment)
        return now is not None and not now.changes(before)

    @classmethod
    def at(cls, path: str) -> Run:
        """Return the folder of a run, finished or not."""
        run = cls(epath.Path(path))
        if not (run.path / EXPERIMENT).exists():
            raise InputError(f"{path}: holds no run (no {EXPERIMENT})")
        return run

    @classmethod
    def open(cls, path: str) -> Run:
        """Return the folder of a finished run."""
        run = cls.at(path)
        if not run.is_finished:
            raise InputError(
                f"{path}: the run did not finish (no {RESULT}); resume it with the "
                "command that began it"
            )
        return run

    @property
    def is_finished(self) -> bool:
        """Whether the final scores are written."""
        return (self.path / RESULT).exists()

    @property
    def has_ended(self) -> bool:
        """Whether training has finished or diverged."""
        return self.is_finished or self.diverged() is not None

    def write_setup(self, experiment: config.Experiment, data: Encoded) -> None:
        """Record what later commands need but the weights; the folder appears whole.

        Raises:
          InputError: the folder cannot be written.
        """
        folder = files.follow_link(self.path)
        contents: dict[str, str | bytes] = {
            LABELS: _json(list(data.labels)),
            ENCODER: _json(dataclasses.asdict(data.encoder)),
            tokenize.FILE: data.tokenizer.to_str(pretty=True),
            DATA: _json(data.identity.to_json()),
            EXPERIMENT: config.to_json(experiment),
        }
        try:
            with files.whole_folder(folder) as made:
                files.sign(made, contents)
                for name, content in contents.items():
                    files.write_whole(made, name, content)
                if folder.exists():  # `create` has made sure that it may go
                    folder.rmtree()
        except OSError as error:
            raise InputError(
                f"{self.path}: cannot be written: {error.strerror or error}; name "
                "another folder with --out"
            ) from error

    def write_result(self, result: dict[str, Any]) -> None:
        """Write the final scores in one move, so that they are whole or absent.

        From now on the records of training count as they are.
        """
        records = [x for x in files.entries(self.path) if x.name.endswith(".jsonl")]
        files.sign(self.path, {file.name: files.read_bytes(file) for file in records})
        self.write(RESULT, _json(finite(result)))
        with files.input_errors(self.path):
            (self.path / DIVERGED).unlink(missing_ok=True)

    def result(self) -> dict[str, Any]:
        """Return the final scores, which name the positive class where there is one.

        In runs of earlier versions it is the last of their labels.
        """
        result = with_checksums(self.read_json(RESULT, dict))
        for scores in result.values():
            is_of_texts = isinstance(scores, dict) and are_of_texts(scores)
            if is_of_texts and "positive" not in scores and len(self.labels()) == 2:
                scores["positive"] = self.labels()[-1]
        return result

    def write_identity(self, identity: Identity) -> None:
        """Record what the run is made from, where a part of it has changed."""
        self.write(DATA, _json(identity.to_json()))

    def changes(self, now: Identity, noun: str = "examples") -> dict[str, str]:
        """Say by part how the data and the encoder have changed since the run.

        Only what the run has used so far counts: nothing before its first checkpoint,
        and test where that was not scored. Runs of versions without `data.json` do not
        know their data.
        """
        parts = {"train", "dev", WEIGHTS, TOKENIZER}
        if self.is_finished:
            parts |= {"test"} if "test" in self.result() else set()
        elif self.diverged() is None and not steps(self.path / CHECKPOINTS):
            return {}
        earlier = self.identity()
        return {} if earlier is None else now.changes(earlier, noun, parts)

    def identity(self) -> Identity | None:
        """Return what the run was made from; None where that was not recorded."""
        if not files.was_written(self.path, DATA):
            return None
        with json_text.flaws_at(self.path / DATA):
            identity = Identity.from_json(self.read_json(DATA, dict))
        if TOKENIZER in identity.encoder:  # as today's version writes it
            encoder = {TOKENIZER: tokenizer_checksum(self.tokenizer())}
            encoder = {**identity.encoder, **encoder}
            identity = dataclasses.replace(identity, encoder=encoder)
        return identity

    def records(self, name: str) -> list[dict[str, Any]]:
        """Return the records of training in metrics.jsonl or analysis.jsonl."""
        file = self.path / name
        content = (
            files.read_checked(self.path, name)
            if self.is_finished
            else files.read_bytes(file)
        )
        *lines, _ = content.split(b"\n")  # what follows the last one is torn
        records = []
        for number, line in enumerate(lines, 1):
            record = _parse(line, file, dict, number)
            if type(record.get("step")) is not int:
                raise InputError.at(file, number, "has no step", "train it again")
            records.append(record)
        return records

    def write_statistics(self, shares: np.ndarray, **more: np.ndarray) -> None:
        """Write statistics of test examples, `[N, C, 2]`, and what `test_array` has."""
        self.write_arrays(STATISTICS, {"example_statistics": shares, **more})

    def example_statistics(self) -> np.ndarray:
        """Return per-example statistics of the test split, `[N, C, 2]`."""
        return self.arrays(STATISTICS, ["example_statistics"])["example_statistics"]

    def test_array(self, name: str) -> np.ndarray | None:
        """Return groups or predictions, `[N]`; None in runs that have none."""
        return self.arrays(STATISTICS).get(name)

    def score_counts(self) -> dict[str, np.ndarray]:
        """Return counts of test scores, `[C, 2, BINS]` by output."""
        return self.arrays(SCORE_COUNTS)

    def write_baselines(self, controls: Mapping[str, Mapping[str, Any]]) -> None:
        """Write scores of moved decisions by name, with their `example_statistics`."""
        rest = {name: dict(control) for name, control in controls.items()}
        shares = {n: control.pop("example_statistics") for n, control in rest.items()}
        self.write_arrays(BASELINE_STATISTICS, shares)
        self.write(BASELINES, _json(finite(rest)))

    def baselines(self) -> dict[str, dict[str, Any]] | None:
        """Return the baselines; None where there are none."""
        if not files.was_written(self.path, BASELINES):
            return None
        controls = self.read_json(BASELINES, dict)
        shares = self.arrays(BASELINE_STATISTICS, list(controls))
        return {
            name: control | {"example_statistics": shares[name]}
            for name, control in controls.items()
        }

    def write_arrays(self, name: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Write arrays as an npz file."""
        content = io.BytesIO()
        np.savez_compressed(content, **arrays)  # type: ignore[arg-type]
        self.write(name, content.getvalue())

    def arrays(self, name: str, names: list[str] | None = None) -> Any:
        """Return the arrays of an npz file by name, all or some."""
        content = files.read_checked(self.path, name)
        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as archive:
                return {key: archive[key] for key in names or archive.files}
        except Exception as error:  # of zip, zlib, or the header
            raise damage(self.path / name, first_line(error)) from error

    def write_diverged(self, message: str) -> None:
        """Record that training was given up."""
        self.write(DIVERGED, _json({"message": message}))

    def diverged(self) -> str | None:
        """Return why training was given up; None otherwise."""
        is_there = (self.path / DIVERGED).exists()
        return str(self.read_json(DIVERGED, dict)["message"]) if is_there else None

    def experiment(self) -> config.Experiment:
        """Return the experiment as it was run."""
        content = files.read_checked(self.path, EXPERIMENT).decode("utf-8", "replace")
        return config.from_json(content, str(self.path / EXPERIMENT))

    def offline_experiment(self, *, data: str | None = None) -> config.Experiment:
        """Return the experiment, such that reading its data fetches and runs nothing.

        The folder may come from anywhere: addresses (scheme://) and data sets for which
        code may be fetched are refused, unless the experiment file in use
        (`config.classes_of`) names the same.

        Args:
          data: folder or address, named by the user, to read the data from instead.

        Raises:
          InputError: its data would have to be fetched, or code be run.
        """
        experiment, origin = self.experiment(), self.path / EXPERIMENT
        if data is not None:
            if not isinstance(experiment.data, FileSource):
                raise InputError("--data: this run read no folder of files")
            source = dataclasses.replace(experiment.data, dir=data)
            experiment = dataclasses.replace(experiment, data=source)
        trusted, leaves = config.file_leaves(), config.leaves(experiment)
        remedy = "name the experiment file that says so with --experiment"
        for name, value in leaves.items():
            if not isinstance(value, str) or "://" not in value:
                continue
            if value not in (data, trusted.get(name)):
                raise InputError(
                    f"{origin}: {name} is {quote(value)}, which is not fetched because "
                    f"a run folder says so; {remedy}, or a folder with --data"
                )
        source_leaves = ("data.type", "data.name", "data.dir")
        if trusted and all(trusted.get(n) == leaves.get(n) for n in source_leaves):
            return experiment
        try:
            return dataclasses.replace(experiment, data=experiment.data.offline())
        except InputError as error:
            raise InputError(f"{origin}: {error}; {remedy}") from error

    def labels(self) -> tuple[str, ...]:
        """Return the labels the network chooses from."""
        labels = self.read_json(LABELS, list)
        if not all(isinstance(label, str) for label in labels):
            raise damage(self.path / LABELS, "labels are strings")
        return tuple(labels)

    def tokenizer(self) -> Tokenizer:
        """Return the tokenizer."""
        content, file = files.read_checked(self.path, tokenize.FILE), tokenize.FILE
        try:
            return tokenize.parse(content.decode("utf-8", "replace"))
        except Flaw as flaw:
            raise damage(self.path / file, " ".join(flaw.fault.split())) from flaw

    def encoder(self) -> EncoderConfig:
        """Return the architecture of the encoder."""
        content, origin = self.read_json(ENCODER, dict), str(self.path / ENCODER)
        return huggingface.config_from(content, origin)

    def as_begun(self, experiment: config.Experiment) -> config.Experiment:
        """Return an experiment with what was open in it when the run began.

        That is the labels, and what represents a text, whatever its data and the folder
        of its encoder say now.
        """
        task, encoder = experiment.task.with_labels(self.labels()), experiment.encoder
        if isinstance(encoder, config.PretrainedEncoder) and encoder.pooling == "auto":
            position = self.encoder().text_summary.position
            encoder = dataclasses.replace(encoder, pooling=position)
        return dataclasses.replace(experiment, task=task, encoder=encoder)

    def network(self) -> Network:
        """Return the architecture."""
        experiment = self.experiment()
        return Network(
            encoder=self.encoder(),
            heads=experiment.task.heads(self.labels()),
            precision=experiment.training.precision,
        )

    def write(self, name: str, content: str | bytes) -> None:
        """Write a file in one move, with its checksum, unless the run was deleted."""
        if not (self.path / files.SUMS).exists():
            raise InputError(
                f"{self.path}: was deleted meanwhile; run the same command again"
            )
        files.write_checked(self.path, name, content)

    def read_json(self, name: str, kind: type[T]) -> T:
        """Return the content of a JSON file, of a type."""
        return _parse(files.read_checked(self.path, name), self.path / name, kind)


def _parse(
    content: bytes, file: epath.Path, kind: type[T], line: int | None = None
) -> T:
    with json_text.flaws_at(file, line):
        text = content.decode("utf-8", "replace")
        return json_text.value_of(json_text.parse(text), kind)


def damage(file: epath.Path, reason: str) -> InputError:
    """Return the error of a file of a run that cannot be read."""
    return InputError.at(file, None, f"damaged: {reason}", "train it again")


def _json(content: Any) -> str:
    return json.dumps(content, indent=2) + "\n"
