"""A run's folder.

experiment.json   the resolved experiment
labels.json       the labels the network chooses from
encoder.json      the architecture of the encoder
tokenizer.json    the tokenizer
metrics.jsonl     one JSON object per line: losses, rates, scores
analysis.jsonl    measurements of the gradients of some steps, if asked
tensorboard/      the same for TensorBoard
wandb_id.txt      id of the run at Weights & Biases, with its files in wandb/, if asked
checkpoints/      the last states and the best
test_statistics.npz   per-example statistics, see `Task.example_statistics`
test_scores.npz   histograms of the scores on test, see `metrics.score_counts`
baselines.json    scores of moved decisions, see `comparison.baselines`; and
baselines.npz     their per-example statistics
result.json       the final scores; written last, so it marks a finished run
diverged.json     instead of it: why training was given up
"""

from __future__ import annotations

import dataclasses
import io
import json
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np
from etils import epath
from tokenizers import Tokenizer

from dicejax import config
from dicejax.data import tokenize
from dicejax.errors import InputError, first_line
from dicejax.files import write_whole
from dicejax.models import huggingface
from dicejax.models.encoder import EncoderConfig
from dicejax.models.network import Network

RESULT = "result.json"
STATISTICS = "test_statistics.npz"
SCORE_COUNTS = "test_scores.npz"
BASELINES = "baselines.json"
BASELINE_STATISTICS = "baselines.npz"
DIVERGED = "diverged.json"
EXPERIMENT = "experiment.json"


@dataclasses.dataclass(frozen=True)
class Run:
    """A run folder, local or anything etils.epath opens.

    Attributes:
      path: where it is.
      continues: whether it holds the beginning of the run.
    """

    path: epath.Path
    continues: bool = False

    @classmethod
    def create(
        cls, path: str, experiment: config.Experiment, *, overwrite: bool = False
    ) -> Run:
        """Return the folder for an experiment, new or with a run of it.

        Args:
          path: where; made when something is first written.
          experiment: experiment of the run.
          overwrite: replace the run that the folder holds; it is deleted when the new
            run first writes, not before its data and weights have been read.

        Raises:
          InputError: the folder holds a run of another experiment and `overwrite` is
            not set, or holds something that is no run.
        """
        run = cls(epath.Path(path))
        if not run.path.exists():
            return run
        if not run.path.is_dir():
            raise InputError(f"{path}: is a file; name another folder with --out")
        if not (run.path / EXPERIMENT).exists():
            if any(run.path.iterdir()):
                raise InputError(
                    f"{path}: is not empty and holds no run; name another --out"
                )
            return run
        if overwrite:
            return run
        changes = config.differences(run.experiment(), experiment)
        if changes:
            state = "a finished" if run.is_finished else "an unfinished"
            raise InputError(
                f"{path}: holds {state} run of other settings: {'; '.join(changes)}; "
                "name another folder with --out, or replace it with --overwrite"
            )
        return dataclasses.replace(run, continues=True)

    @classmethod
    def at(cls, path: str) -> Run:
        """Return the folder of a run, finished or not.

        Raises:
          InputError: there is none.
        """
        run = cls(epath.Path(path))
        if not (run.path / EXPERIMENT).exists():
            raise InputError(f"{path}: holds no run (no {EXPERIMENT})")
        return run

    @classmethod
    def open(cls, path: str) -> Run:
        """Return the folder of a finished run.

        Raises:
          InputError: there is no run, or it did not finish.
        """
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
    def checkpoints(self) -> epath.Path:
        """Folder of the checkpoints."""
        return self.path / "checkpoints"

    def write_setup(
        self,
        experiment: config.Experiment,
        labels: tuple[str, ...],
        encoder: EncoderConfig,
        tokenizer: Tokenizer,
    ) -> None:
        """Record everything that later commands need, but the weights.

        The folder is created atomically.

        Raises:
          InputError: the folder cannot be written.
        """
        partial = self.path.parent / f".{self.path.name}.partial"
        try:
            if partial.exists():
                partial.rmtree()
            partial.mkdir(parents=True)
            (partial / "labels.json").write_text(_json(list(labels)))
            (partial / "encoder.json").write_text(_json(dataclasses.asdict(encoder)))
            (partial / tokenize.FILE).write_text(
                tokenizer.to_str(pretty=True), encoding="utf-8"
            )
            (partial / EXPERIMENT).write_text(config.to_json(experiment))
            if self.path.exists():  # `create` has made sure that it may go
                self.path.rmtree()
            partial.rename(self.path)
        except OSError as error:
            raise InputError(
                f"{self.path}: cannot be written: {error.strerror or error}; name "
                "another folder with --out"
            ) from error

    def write_result(self, result: dict[str, Any]) -> None:
        """Write the final scores in one move, so that they are whole or absent."""
        write_whole(self.path, RESULT, _json(result))
        (self.path / DIVERGED).unlink(missing_ok=True)

    def result(self) -> dict[str, Any]:
        """Return the final scores."""
        return self._read(RESULT)

    def write_statistics(self, shares: np.ndarray) -> None:
        """Write per-example statistics of the test split, `[N, C, 2]`."""
        self._write_arrays(STATISTICS, {"example_statistics": shares})

    def example_statistics(self) -> np.ndarray:
        """Return per-example statistics of the test split, `[N, C, 2]`.

        Raises:
          InputError: the run has none, or the file cannot be read.
        """
        return self._arrays(STATISTICS, "example_statistics")["example_statistics"]

    def write_score_counts(self, counts: Mapping[str, np.ndarray]) -> None:
        """Write counts of test scores, `[C, 2, BINS]` by output."""
        self._write_arrays(SCORE_COUNTS, counts)

    def score_counts(self) -> dict[str, np.ndarray]:
        """Return counts of test scores, `[C, 2, BINS]` by output.

        Raises:
          InputError: the run has none, or the file cannot be read.
        """
        return self._arrays(SCORE_COUNTS)

    def write_baselines(self, controls: Mapping[str, Mapping[str, Any]]) -> None:
        """Keep scores of moved decisions by name, each with an array of `shares`."""
        shares = {name: one["example_statistics"] for name, one in controls.items()}
        self._write_arrays(BASELINE_STATISTICS, shares)
        rest = {
            name: {
                key: value for key, value in one.items() if key != "example_statistics"
            }
            for name, one in controls.items()
        }
        write_whole(self.path, BASELINES, _json(rest))

    def baselines(self) -> dict[str, dict[str, Any]] | None:
        """Return the baselines; None where there are none.

        Raises:
          InputError: a file cannot be read.
        """
        if not (self.path / BASELINES).exists():
            return None
        controls = self._read(BASELINES)
        shares = self._arrays(BASELINE_STATISTICS, *controls)
        return {
            name: one | {"example_statistics": shares[name]}
            for name, one in controls.items()
        }

    def _write_arrays(self, name: str, arrays: Mapping[str, np.ndarray]) -> None:
        content = io.BytesIO()
        np.savez_compressed(content, **arrays)
        (self.path / name).write_bytes(content.getvalue())

    def _arrays(self, name: str, *wanted: str) -> dict[str, np.ndarray]:
        file = self.path / name
        try:
            with np.load(io.BytesIO(file.read_bytes()), allow_pickle=False) as found:
                return {key: found[key] for key in wanted or found.files}
        except FileNotFoundError as error:
            raise InputError(
                f"{file}: missing; train the run again with --overwrite"
            ) from error
        except (ValueError, KeyError, zipfile.BadZipFile) as error:
            raise InputError(f"{file}: damaged: {first_line(error)}") from error

    def write_diverged(self, message: str) -> None:
        """Record that training was given up."""
        write_whole(self.path, DIVERGED, _json({"message": message}))

    def diverged(self) -> str | None:
        """Return why training was given up; None otherwise."""
        if not (self.path / DIVERGED).exists():
            return None
        return self._read(DIVERGED)["message"]

    def experiment(self) -> config.Experiment:
        """Return the experiment as it was run."""
        file = self.path / EXPERIMENT
        return config.from_json(file.read_text(), str(file))

    def labels(self) -> tuple[str, ...]:
        """Return the labels the network chooses from."""
        return tuple(self._read("labels.json"))

    def tokenizer(self) -> Tokenizer:
        """Return the tokenizer."""
        return Tokenizer.from_str(
            (self.path / tokenize.FILE).read_text(encoding="utf-8")
        )

    def network(self) -> Network:
        """Return the architecture."""
        experiment = self.experiment()
        return Network(
            encoder=huggingface.config_from(
                self._read("encoder.json"), str(self.path / "encoder.json")
            ),
            heads=experiment.task.heads(self.labels()),
            precision=experiment.training.precision,
        )

    def _read(self, name: str) -> Any:
        file = self.path / name
        try:
            return json.loads(file.read_text())
        except FileNotFoundError as error:
            raise InputError(f"{file}: missing; is the run folder complete?") from error
        except json.JSONDecodeError as error:
            raise InputError(f"{file}:{error.lineno}: not JSON: {error.msg}") from error


def _json(content: Any) -> str:
    return json.dumps(content, indent=2) + "\n"
