"""A finished run as a Hugging Face model folder, opened again before it appears."""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import jax
import numpy as np
from tokenizers import Tokenizer

from dicejax.data import tokenize
from dicejax.errors import InputError
from dicejax.models import huggingface
from dicejax.models.network import Network, Params
from dicejax.training.checkpoint import Which, restore_params
from dicejax.training.run_folder import CHECKPOINTS, Run
from dicejax.training.setup import load_corpus

CHECKED = 100  # inputs of dev, the first ones
ROUNDING = 1e-3  # of the largest logit: float32 sums in another order
_ROWS = 10


def export(
    folder: str,
    target: str,
    which: Which,
    *,
    encoder_only: bool = False,
    card: Callable[[str], str] | None = None,
) -> tuple[str, str]:
    """Export weights, architecture, labels, threshold and tokenizer for transformers.

    The target folder appears whole or not at all. Before that it is read again: weights
    and tokenizer must be those of the run, bit for bit, and where PyTorch is installed
    its logits on dev those of JAX in float32.

    Args:
      folder: finished run.
      target: folder to create.
      which: checkpoint.
      encoder_only: omit the head.
      card: content of README.md, given the class that opens the folder.

    Returns:
      The PyTorch class that opens the folder, and a sentence about the check.

    Raises:
      InputError: the run cannot be used, the folder is taken, PyTorch has no class
        with such a head, or the folder does not compute what the run does.
    """
    run = Run.open(folder)
    network, labels, tokenizer = run.network(), run.labels(), run.tokenizer()
    _, params = restore_params(run.path / CHECKPOINTS, network, which)
    chosen = run.result().get("threshold") if which == "best" else None
    if encoder_only:
        network, chosen = dataclasses.replace(network, heads=()), None
        params = {"encoder": params["encoder"], "heads": {}}
    checked = []

    def finish(draft: Path, opener: str) -> None:
        checked.append(_check(draft, opener, run, network, params, tokenizer))
        if card is not None:
            text = f"{card(opener)}\n{checked[0]}\n"
            (draft / "README.md").write_text(text, encoding="utf-8")

    opener = huggingface.write(
        Path(target).expanduser(),
        network,
        params,
        labels=labels,
        tokenizer=tokenizer,
        threshold=None if chosen is None else chosen["threshold"],
        finish=finish,
    )
    return opener, checked[0]


def _check(
    folder: Path,
    opener: str,
    run: Run,
    network: Network,
    params: Params,
    tokenizer: Tokenizer,
) -> str:
    """Compare a folder with the run that it was written from; return what was found."""
    weights = huggingface.read_weights(folder, network, run.labels())
    leaves = [jax.tree.leaves_with_path(x) for x in (params, weights.params)]
    same = len(leaves[0]) == len(leaves[1]) and all(
        path == other and np.array_equal(x, y)
        for (path, x), (other, y) in zip(*leaves, strict=True)
    )
    if not same or tokenize.read(folder).to_str() != tokenizer.to_str():
        raise InputError(
            f"{run.path}: weights or tokenizer are others when the exported folder is "
            "read; nothing was written: report this, with config.json"
        )
    equal = "Read again, the folder has the run's weights and tokenizer, bit for bit"
    if importlib.util.find_spec("torch") is None:
        return (
            f"{equal}. PyTorch is not installed here, so its logits were not compared."
        )
    try:
        batches, name = _inputs(run, network, tokenizer), "dev"
    except InputError as error:
        return f"{equal}. Logits of PyTorch were not compared: {error}."
    of_torch = _torch_logits(folder, opener)
    worst, largest = 0.0, 0.0
    for batch in batches:
        ours, theirs = _logits(network, params, batch), of_torch(batch)
        real = batch["segment_ids"] > 0
        for x, y in zip(ours, theirs, strict=True):
            if x.shape[:2] == real.shape:
                x, y = x[real], y[real]
            worst = max(worst, float(np.abs(x - y).max()))
            largest = max(largest, float(np.abs(x).max()))
    if not worst <= ROUNDING * max(largest, 1):
        raise InputError(
            f"{run.path}: logits of PyTorch differ by up to {worst:.2g} on {name}; "
            "nothing was written: report this, with config.json"
        )
    return f"{equal}; the logits of PyTorch on {name} differ by {worst:.1g} at most."


def _inputs(
    run: Run, network: Network, tokenizer: Tokenizer
) -> Iterator[dict[str, np.ndarray]]:
    """Yield batches of dev inputs, each in a row: padding is where PyTorch has it.

    Raises:
      InputError: the data cannot be read.
    """
    experiment, encoder = run.offline_experiment(), network.encoder
    examples = load_corpus(experiment, lambda note: None).dev[:CHECKED]
    limits = (experiment.training.max_length, encoder.max_length)
    length = min(filter(None, limits))
    items = experiment.task.encode(examples, tokenizer, run.labels(), length)[:CHECKED]
    width = max(map(len, items), default=0)
    is_left = encoder.model_type == "xlnet"
    for start in range(0, len(items), _ROWS):
        rows = [item.arrays for item in items[start : start + _ROWS]]
        rows += rows[-1:] * (_ROWS - len(rows))  # one shape, one program
        names = ("input_ids", "token_type_ids", "segment_ids", "position_ids")
        batch = {name: np.zeros((_ROWS, width), np.int32) for name in names}
        batch["input_ids"][:] = encoder.pad_token_id
        for number, arrays in enumerate(rows):
            n = len(arrays["input_ids"])
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
    if not network.heads:
        return [np.asarray(exact.hidden_states(params, batch)[-1])]
    return [np.asarray(x) for x in exact.apply(params, batch).values()]


def _torch_logits(
    folder: Path, opener: str
) -> Callable[[Mapping[str, np.ndarray]], list[np.ndarray]]:
    """Return a function that computes the same in the class that opens the folder."""
    import torch
    import transformers

    transformers.utils.logging.disable_progress_bar()
    model = getattr(transformers, opener).from_pretrained(folder).eval()
    names = {"input_ids": "input_ids", "attention_mask": "segment_ids"}
    if getattr(model.config, "type_vocab_size", 2) > 1:
        names["token_type_ids"] = "token_type_ids"

    def logits(batch: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        with torch.no_grad():
            output = model(**{x: torch.tensor(batch[y]) for x, y in names.items()})
        parts = ("logits", "start_logits", "end_logits", "last_hidden_state")
        outputs = [getattr(output, name, None) for name in parts]
        return [x.float().numpy() for x in outputs if x is not None]

    return logits
