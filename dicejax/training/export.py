"""A finished run as a Hugging Face model folder, opened again before it appears."""

from __future__ import annotations

import dataclasses
import importlib.util
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from etils import epath
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from dicejax.config import Experiment
from dicejax.data import tokenize
from dicejax.errors import InputError
from dicejax.formats import FileSource
from dicejax.models import huggingface
from dicejax.models.huggingface.modules import WEIGHTS
from dicejax.models.huggingface.names import DENSE, SENTENCES
from dicejax.models.network import Network, Params
from dicejax.tasks import Item, viterbi
from dicejax.training.checkpoint import Which
from dicejax.training.encoded import load_corpus
from dicejax.training.restored import network_params
from dicejax.training.run_folder import Run

CHECKED = 100  # inputs of dev, the first ones
ROUNDING = 1e-3  # of the largest logit: float32 sums in another order
_ROWS = 10
_SENTENCES = "sentence_transformers"


@dataclasses.dataclass(frozen=True)
class Exported:
    """A folder that was written, and the run that it was written from.

    Attributes:
      folder: the folder, before it appears.
      opener: PyTorch's class that opens it.
      run: finished run.
      network: the run's network, without heads where the encoder alone is exported.
      params: its parameters.
      tokenizer: its tokenizer.
      dev: examples to compare with the run, or why there are none.
      threshold: decision threshold, one or by label; None: the task's default.
    """

    folder: Path
    opener: str
    run: Run
    network: Network
    params: Params
    tokenizer: Tokenizer
    dev: Sequence[Any] | InputError
    threshold: float | Mapping[str, float] | None = None


def export(
    folder: str,
    target: str,
    which: Which,
    *,
    encoder_only: bool = False,
    data: str | None = None,
    warn: Callable[[str], None] = lambda text: None,
    card: Callable[[str], str] | None = None,
    more: Callable[[Exported], Iterable[str]] | None = None,
) -> tuple[str, list[str]]:
    """Export weights, architecture, labels, threshold and tokenizer for transformers.

    The target folder appears whole or not at all. Before that it is read again: its
    weights must be those of the run, bit for bit, its tokenizer must encode dev alike,
    and where PyTorch is installed its logits on dev must be those of JAX in float32.

    Args:
      folder: finished run.
      target: folder to create.
      which: checkpoint.
      encoder_only: omit the head.
      data: data folder, if it has moved since training, or a file of examples that are
        compared in the place of dev.
      warn: called before the work with why nothing is compared on dev.
      card: content of README.md, given the class that opens the folder.
      more: adds files to the folder, and returns sentences about them.

    Returns:
      The PyTorch class that opens the folder, and sentences about the checks.

    Raises:
      InputError: the run cannot be used, the folder is taken, PyTorch has no class
        with such a head, or the folder does not compute what the run does.
    """
    run = Run.open(folder)
    network, labels, tokenizer = run.network(), run.labels(), run.tokenizer()
    _, params = network_params(run, network, which)
    result = run.result() if which == "best" else {}
    settings = _settings(run.experiment())
    for name, part, field in (
        ("decision_threshold", "threshold", "threshold"),
        ("calibration_temperature", "calibration", "temperature"),
        ("calibrated_decision_threshold", "calibration", "threshold"),
    ):
        value = (result.get(part) or {}).get(field)
        settings |= {} if value is None else {name: value}
    if encoder_only:
        network, settings = dataclasses.replace(network, heads=()), {}
        params = {"encoder": params["encoder"], "heads": {}}
    threshold, checks = settings.get("decision_threshold"), []
    dev = examples_of(run, data)
    if isinstance(dev, InputError):
        warn(f"the export is not compared with the run on dev: {dev}")

    def finish(draft: Path, opener: str) -> None:
        exported = Exported(
            draft, opener, run, network, params, tokenizer, dev, threshold
        )
        checks.append(_check(exported))
        if more is not None:
            checks.extend(more(exported))
        if card is not None:
            text = "\n\n".join([f"{card(opener)}\n## Export", *checks])
            (draft / "README.md").write_text(f"{text}\n", encoding="utf-8")

    opener = huggingface.write(
        Path(target).expanduser(),
        network,
        params,
        labels=labels,
        tokenizer=tokenizer,
        settings=settings,
        finish=finish,
    )
    return opener, checks


def examples_of(run: Run, data: str | None = None) -> Sequence[Any] | InputError:
    """Return the dev examples of a run, or those of a file; or why there are none.

    Raises:
      InputError: the data that is named cannot be used.
    """
    try:
        if data is None or not Path(data).expanduser().is_file():
            offline = run.offline_experiment(data=data)
            return load_corpus(offline, lambda note: None).dev
        experiment = run.experiment()
        if not isinstance(experiment.data, FileSource):
            raise InputError("--data: this run read no files")
        path = epath.Path(data).expanduser()
        return experiment.task.adapt(experiment.data.read(path, None))
    except InputError as error:
        if data is not None:
            raise
        return error


def _settings(experiment: Experiment) -> dict[str, Any]:
    """Return what other programs need to read inputs as the run does."""
    task = experiment.task
    settings = {
        "window_length": experiment.training.max_length,
        "window_stride": task.stride,
        "is_split_into_words": task.reads_words,
    }
    names = [name for name in ("scheme", "decoding") if hasattr(task, name)]
    return settings | {f"tag_{name}": getattr(task, name) for name in names}


def _check(exported: Exported) -> str:
    """Compare a written folder with its run, and return the result as a sentence."""
    folder, run, tokenizer = exported.folder, exported.run, exported.tokenizer
    network, params = exported.network, exported.params
    experiment, labels = run.experiment(), run.labels()
    again = tokenize.read(folder, words=experiment.task.reads_words)
    weights = huggingface.read_weights(folder, network, labels).params
    pairs = zip(jax.tree.leaves(params), jax.tree.leaves(weights), strict=True)
    same = all(np.array_equal(x, y) for x, y in pairs)
    same = same and again.get_vocab() == tokenizer.get_vocab()
    examples: Sequence[Any] = ()
    of_dev = "no inputs of dev were compared, for want of the data"
    if not isinstance(exported.dev, InputError):
        examples = exported.dev[:CHECKED]
        of_dev = "PyTorch is not installed here, so its logits were not compared"
    length = network.encoder.within_limit(experiment.training.max_length)
    ours, theirs = (
        experiment.task.encode(examples, x, labels, length)[:CHECKED]
        for x in (tokenizer, again)
    )
    ids = [[x.arrays["input_ids"].tolist() for x in items] for items in (ours, theirs)]
    if not same or ids[0] != ids[1]:
        raise InputError(
            f"{run.path}: the exported folder is read with other weights or pieces "
            "than the run has; nothing was written; report this, with its config.json"
        )
    if ours and importlib.util.find_spec("torch") is not None:
        program, worst = _difference(exported, ours)
        of_dev = f"logits of {program} on dev differ by {worst:.1g} at most"
    rest = viterbi.left_to_reader(experiment.task) if network.heads else ""
    return f"Read again, the folder has the run's weights, bit for bit; {of_dev}.{rest}"


def _difference(exported: Exported, items: Sequence[Item]) -> tuple[str, float]:
    """Return the largest difference of PyTorch's logits from ours, and by what program.

    Raises:
      InputError: it is more than rounding.
    """
    folder, network = exported.folder, exported.network
    program, of_torch = _torch_logits(folder, exported.opener)
    worst, largest = 0.0, 1.0
    for batch in _batches(items, network):
        pairs = zip(
            _logits(network, exported.params, batch), of_torch(batch), strict=True
        )
        for ours, theirs in pairs:
            if ours.shape[:2] == batch["segment_ids"].shape:  # of tokens
                real = batch["segment_ids"] > 0
                ours, theirs = ours[real], theirs[real]
            worst = max(worst, float(np.abs(ours - theirs).max()))
            largest = max(largest, float(np.abs(ours).max()))
    if not worst <= ROUNDING * largest:
        raise InputError(
            f"{folder.name}: logits of {program} differ by up to {worst:.2g} on dev; "
            "nothing was written; report this, with its config.json"
        )
    return program, worst


def _batches(
    items: Sequence[Item], network: Network
) -> Iterator[dict[str, np.ndarray]]:
    """Yield batches with one input in each row, padded as PyTorch's are."""
    width, encoder = max(map(len, items)), network.encoder
    for start in range(0, len(items), _ROWS):
        rows = [item.arrays for item in items[start : start + _ROWS]]
        rows += rows[-1:] * (_ROWS - len(rows))  # one shape, so one program
        names = ("input_ids", "token_type_ids", "segment_ids", "position_ids")
        batch = {name: np.zeros((_ROWS, width), np.int32) for name in names}
        batch["input_ids"][:] = getattr(encoder, "pad_token_id", 0)
        for number, arrays in enumerate(rows):
            n = len(arrays["input_ids"])
            is_left = encoder.model_type == "xlnet"
            place = slice(width - n, width) if is_left else slice(n)
            batch["input_ids"][number, place] = arrays["input_ids"]
            batch["token_type_ids"][number, place] = arrays.get("token_type_ids", 0)
            batch["segment_ids"][number, place] = 1
            batch["position_ids"][number, place] = np.arange(n)
        yield batch


def _logits(
    network: Network, params: Params, batch: Mapping[str, np.ndarray]
) -> list[np.ndarray]:
    """Return logits in float32; an encoder without heads has its last hidden states."""
    exact = dataclasses.replace(network, precision="float32")
    arrays = {name: jax.numpy.asarray(values) for name, values in batch.items()}
    if not network.heads:
        return [np.asarray(exact.hidden_states(params, arrays)[-1])]
    return [np.asarray(x) for x in exact.apply(params, arrays).values()]


def opening(opener: str) -> str:
    """Return what is called with a folder to open it.

    >>> opening("BertModel")
    'transformers.BertModel.from_pretrained'
    >>> opening("SentenceTransformer")
    'sentence_transformers.SentenceTransformer'
    """
    if opener == SENTENCES:
        return f"{_SENTENCES}.{opener}"
    return f"transformers.{opener}.from_pretrained"


def open_in_torch(folder: Path, opener: str) -> tuple[Any, dict[str, str]]:
    """Open a folder in PyTorch; return the model, and our names of its inputs."""
    import transformers

    transformers.utils.logging.disable_progress_bar()
    # It reports a pooler that a pooled encoder has no use for; logits are compared.
    transformers.utils.logging.set_verbosity_error()
    of_root = "AutoModel" if opener == SENTENCES else opener
    model = getattr(transformers, of_root).from_pretrained(folder).eval()
    names = {"input_ids": "input_ids", "attention_mask": "segment_ids"}
    takes_types = "token_type_ids" in inspect.signature(model.forward).parameters
    if takes_types and getattr(model.config, "type_vocab_size", 2) > 1:
        names["token_type_ids"] = "token_type_ids"
    if opener == SENTENCES:
        model = _pooled(folder, model)
    model.requires_grad_(False)
    return model, names


def _pooled(folder: Path, encoder: Any) -> Any:
    """Return a model of the modules of a folder, which has an encoder's states pooled.

    It needs no sentence-transformers, and ONNX can have it.
    """
    outputs = importlib.import_module("transformers.modeling_outputs")
    torch: Any = importlib.import_module("torch")
    pooling = huggingface.read_config(folder).text_summary.position
    tensors = load_file(folder / DENSE / WEIGHTS)
    dense = torch.nn.Linear(*reversed(tensors["linear.weight"].shape))
    with torch.no_grad():
        for name, parameter in dense.named_parameters():
            parameter.copy_(torch.from_numpy(tensors[f"linear.{name}"]))

    def pool(states: Any, mask: Any) -> Any:
        if pooling == "mean":
            weights = mask[..., None].to(states.dtype)
            return (states * weights).sum(1) / weights.sum(1)
        if pooling == "max":
            least = torch.finfo(states.dtype).min
            return states.masked_fill(mask[..., None] == 0, least).amax(1)
        mask = mask.to(torch.int32)
        is_first, end = pooling == "first", mask.shape[1] - 1
        place = mask.argmax(1) if is_first else end - mask.flip(1).argmax(1)
        return torch.take_along_dim(states, place[:, None, None], 1)[:, 0]

    class Pooled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.dense = encoder, dense

        def forward(
            self, input_ids: Any, attention_mask: Any, token_type_ids: Any = None
        ) -> Any:
            types = {} if token_type_ids is None else {"token_type_ids": token_type_ids}
            inputs = {"input_ids": input_ids, "attention_mask": attention_mask} | types
            states = self.encoder(**inputs).last_hidden_state
            logits = self.dense(pool(states, attention_mask))
            return outputs.SequenceClassifierOutput(logits=logits)

    return Pooled()


def _torch_logits(
    folder: Path, opener: str
) -> tuple[str, Callable[[Mapping[str, np.ndarray]], list[np.ndarray]]]:
    """Return a function that computes the same in the class that opens the folder."""
    import transformers

    model, names = open_in_torch(folder, opener)
    program = "PyTorch"
    if opener == SENTENCES and importlib.util.find_spec(_SENTENCES) is not None:
        program = "sentence-transformers"
        of_modules = importlib.import_module(_SENTENCES).SentenceTransformer
        model = of_modules(str(folder), device="cpu", local_files_only=True).eval()

    def logits(batch: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        arrays = {x: batch[y] for x, y in names.items()}
        inputs = transformers.BatchEncoding(arrays, tensor_type="pt")
        if program != "PyTorch":
            with importlib.import_module("torch").no_grad():
                return [model(dict(inputs))["sentence_embedding"].float().numpy()]
        output = model(**inputs)
        parts = ("logits", "start_logits", "end_logits", "last_hidden_state")
        outputs = [getattr(output, name, None) for name in parts]
        return [x.float().numpy() for x in outputs if x is not None]

    return program, logits
