"""An exported folder as ONNX files, and a run's dev split predicted by onnxruntime."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import importlib.util
import logging
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import Array

from dicejax.errors import InputError, first_line
from dicejax.mesh import MeshShape
from dicejax.models.heads import SequenceHead, StartEndHead, TokenHead
from dicejax.models.network import Network, Params
from dicejax.training.export import Exported, open_in_torch
from dicejax.training.predict import decode_examples

FILES = ("onnx/model.onnx", "onnx/model_int8.onnx")
"""The files in float32 and in int8, where transformers.js looks for them."""
PACKAGES = ("torch", "onnx", "onnxscript", "onnxruntime")
_INLINE = 1 << 30  # bytes of weights in the file of the graph, which may have 2 GiB


@dataclasses.dataclass(frozen=True)
class FileOnDev:
    """The predictions of an ONNX file for dev, and the run's.

    Attributes:
      name: path in the folder.
      difference: largest of its logits from the run's in float32.
      largest: the run's largest logit, absolute.
      shares: `example_statistics` of its predictions, [N, C, 2].
      run_shares: those of the run's.
    """

    name: str
    difference: float
    largest: float
    shares: np.ndarray
    run_shares: np.ndarray


def require(network: Network) -> None:
    """Check that a network can be written as ONNX here.

    Raises:
      InputError: a package is missing, or the head has no such form.
    """
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(
            f"--onnx: {', '.join(missing)} not installed; pip install -e '.[onnx]'"
        )
    kinds = [type(head) for _, head in network.heads]
    if len(kinds) != 1 or kinds[0] not in (TokenHead, SequenceHead, StartEndHead):
        raise InputError(
            "--onnx: takes a run with one head, of tokens, texts or starts and ends; "
            "leave it out"
        )


def write(exported: Exported) -> None:
    """Write `FILES` into an exported folder, with axes of any batch and length.

    Weights of the int8 file have one scale for each column, of activations each batch
    has its own.

    Raises:
      InputError: PyTorch cannot write the model.
    """
    torch = importlib.import_module("torch")
    quantization = importlib.import_module("onnxruntime.quantization")
    model, names = open_in_torch(exported.folder, exported.opener)
    inputs = {name: torch.ones(2, 8, dtype=torch.long) for name in names}
    ((_, head),) = exported.network.heads
    is_span = isinstance(head, StartEndHead)
    outputs = ["start_logits", "end_logits"] if is_span else ["logits"]
    size = torch.export.Dim.DYNAMIC
    exact, small = (exported.folder / name for name in FILES)
    exact.parent.mkdir()
    is_large = sum(x.nbytes for x in model.state_dict().values()) > _INLINE
    try:
        with _silence(), _temporary_files_in(exact.parent):
            torch.onnx.export(
                model,
                f=exact,
                kwargs=inputs,
                input_names=list(names),
                output_names=outputs,
                dynamic_shapes={name: {0: size, 1: size} for name in names},
                external_data=is_large,
                verbose=False,
            )
            quantization.quantize_dynamic(
                exact,
                small,
                per_channel=True,
                reduce_range=True,  # 8 bits overflow on CPUs without VNNI
                weight_type=quantization.QuantType.QInt8,
                use_external_data_format=is_large,
            )
    except Exception as error:  # the exporter's, of any kind
        reason = first_line(error.__cause__ or error)
        raise InputError(
            f"--onnx: {exported.opener} cannot be written: {reason}; leave it out"
        ) from error


@contextlib.contextmanager
def _temporary_files_in(folder: Path) -> Iterator[None]:
    """Have the copies of the model that libraries make written to a folder.

    The exported folder is removed if this process is killed, other places are not.
    """
    before, tempfile.tempdir = tempfile.tempdir, str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = before


def predict_dev(exported: Exported) -> Iterator[FileOnDev]:
    """Predict dev by the run and by each of `FILES`, which read one item in a line.

    Nothing is yielded where there are no examples of dev.

    Raises:
      InputError: the metric of dev is no sum over examples.
    """
    if isinstance(exported.dev, InputError):
        return
    run, network = exported.run, exported.network
    experiment, labels = run.experiment(), run.labels()
    task, examples = experiment.task, exported.dev
    max_length = experiment.training.max_length
    length = network.encoder.within_limit(max_length)
    items = task.encode(examples, exported.tokenizer, labels, length)

    def shares(computer: Any) -> np.ndarray:
        result = decode_examples(
            exported.params,
            examples,
            items,
            task=task,
            network=computer,
            labels=labels,
            tokenizer=exported.tokenizer,
            max_length=max_length,
            mesh=MeshShape().make(jax.local_devices()[:1]),
        )
        (candidates,) = result.candidates
        decided = [task.decide(each, exported.threshold) for each in candidates]
        return task.example_statistics(examples, decided, labels)

    run_shares = shares(network)
    for name in FILES:
        session = _Session(exported.folder / name, network)
        with jax.disable_jit():  # onnxruntime takes arrays, not traces
            theirs = shares(session)
        yield FileOnDev(name, session.difference, session.largest, theirs, run_shares)


class _Session:
    """A network whose logits onnxruntime computes, and compares with its own."""

    def __init__(self, file: Path, network: Network):
        onnxruntime = importlib.import_module("onnxruntime")
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(
            file, options, providers=["CPUExecutionProvider"]
        )
        exact = dataclasses.replace(network, precision="float32")
        self._apply = jax.jit(exact.apply)
        ((_, self._head),) = network.heads
        self._is_left = network.encoder.model_type == "xlnet"
        self._pad = getattr(network.encoder, "pad_token_id", 0)
        self.difference, self.largest = 0.0, 0.0

    def apply(self, params: Params, batch: Mapping[str, Array]) -> dict[str, Array]:
        """Return logits of packed rows; the items of a row are a padded batch."""
        with jax.disable_jit(False):
            ours = self._apply(params, batch)
        arrays = {name: np.asarray(x) for name, x in batch.items()}
        logits = {name: np.array(x) for name, x in ours.items()}
        for row, segments in enumerate(arrays["segment_ids"]):
            places = [np.flatnonzero(segments == n + 1) for n in range(segments.max())]
            if not places:
                continue
            outputs = self._session.run(None, self._inputs(arrays, row, places))
            for values, output in zip(logits.values(), outputs, strict=True):
                for number, tokens in enumerate(places):
                    self._put(values, output[number], row, number, tokens)
        return {name: jax.numpy.asarray(x) for name, x in logits.items()}

    def _inputs(
        self, arrays: Mapping[str, np.ndarray], row: int, places: list[np.ndarray]
    ) -> dict[str, np.ndarray]:
        """Return the items of a packed row as lines of a batch."""
        width = max(map(len, places))
        names = {"attention_mask": "segment_ids"}
        result = {}
        for taken in self._session.get_inputs():
            name = str(taken.name)
            values = arrays[names.get(name, name)][row]
            fill = self._pad if taken.name == "input_ids" else 0
            lines = np.full((len(places), width), fill, np.int64)
            for line, tokens in zip(lines, places, strict=True):
                line[self._part(len(tokens), width)] = values[tokens]
            if taken.name == "attention_mask":
                lines = (lines > 0).astype(np.int64)
            result[taken.name] = lines
        return result

    def _part(self, count: int, width: int) -> slice:
        return slice(width - count, width) if self._is_left else slice(count)

    def _put(
        self,
        values: np.ndarray,
        output: np.ndarray,
        row: int,
        number: int,
        tokens: np.ndarray,
    ) -> None:
        """Put the logits of an item in their place, and note how far they were."""
        if isinstance(self._head, SequenceHead):
            place: Any = (row, number)
        else:
            output = output[self._part(len(tokens), len(output))]
            is_position = getattr(self._head, "form", "") == "positions"
            in_row = is_position and values.ndim == 3
            place = (row, number, tokens) if in_row else (row, tokens)
        apart = float(np.abs(values[place] - output).max())
        self.difference = max(self.difference, apart if apart >= 0 else np.inf)
        self.largest = max(self.largest, float(np.abs(values[place]).max()))
        values[place] = output


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Silence the exporter's progress and its warnings of its own code."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
