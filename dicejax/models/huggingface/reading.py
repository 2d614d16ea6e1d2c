"""Reading a Hugging Face folder without PyTorch."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from flax.traverse_util import unflatten_dict
from safetensors import SafetensorError, safe_open

from dicejax.errors import InputError, first_line, quote
from dicejax.models import (  # noqa: F401 - define their architectures
    bert,
    deberta,
    distilbert,
    eurobert,
    modernbert,
    mpnet,
    prenorm,
    rotary,
    xlnet,
)
from dicejax.models.encoder import EncoderConfig, Pooling
from dicejax.models.heads import SequenceHead, TokenHead
from dicejax.models.huggingface import adapters
from dicejax.models.huggingface.modules import (
    CONFIG,
    FILE_NAME,
    WEIGHTS,
    classifier_of,
    dense_of,
    read_json,
    read_pooling,
)
from dicejax.models.huggingface.names import (
    DENSE,
    NEAREST,
    SENTENCES,
    UNUSED,
    Leaf,
    family_of,
    leaves,
)
from dicejax.models.network import Network, Params

_FLOATS = ("BF16", "F16", "F32", "F64")
# What DataParallel, torch.compile, Lightning and PEFT put before all names.
_WRAPPERS = ("module.", "_orig_mod.", "base_model.model.", "model.")
_LISTED = 20  # mismatches that one message names
PICKLED = ("pytorch_model.bin", "pytorch_model.bin.index.json", "model.pt")


def _architectures(folder: Path) -> set[str]:
    """Return the classes of transformers that a folder is of."""
    names = read_json(folder / CONFIG).get("architectures") or []
    if isinstance(names, list) and all(isinstance(name, str) for name in names):
        return set(names)
    raise InputError(
        f"{folder / CONFIG}: architectures is {quote(names)}; want a list of names"
    )


@dataclasses.dataclass(frozen=True)
class _Stored:
    """A tensor as the header of its file describes it."""

    file: Path
    name: str
    kind: str
    shape: tuple[int, ...]


@contextlib.contextmanager
def _open(file: Path) -> Iterator[Any]:
    """Open a safetensors file; the library checks its header and the places in it."""
    try:
        if not file.is_file():
            raise OSError("missing" if not file.exists() else "not a regular file")
        with safe_open(file, framework="flax") as content:
            yield content
    except (SafetensorError, OSError) as error:
        raise InputError(
            f"{file}: not a readable safetensors file ({first_line(error)}); fetch it "
            "again"
        ) from error


def _stored(folder: Path, prefix: str) -> dict[str, _Stored]:
    """Return the tensors of one file or of all shards.

    Their names are today's, without the task model's prefix.
    """
    stored: dict[str, _Stored] = {}
    for file in _weight_files(folder):
        with _open(file) as content:
            for name in content.keys():  # noqa: SIM118 - not a mapping
                part = content.get_slice(name)
                shape = tuple(part.get_shape())
                tensor = _Stored(file, name, part.get_dtype(), shape)
                new = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", name)
                new = re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", new)
                new = new.removeprefix("new.")  # GTE's, by the code of its folders
                other = stored.setdefault(new.removeprefix(prefix), tensor)
                if other is not tensor:
                    raise InputError(
                        f"{file}: tensor {name} is {other.name} of {other.file.name} "
                        "again; remove one of them"
                    )
    return stored


def _unwrapped(
    stored: dict[str, _Stored], prefix: str
) -> tuple[dict[str, _Stored], str]:
    """Return tensors without the prefix of a wrapper, and that prefix."""
    taken_off = ""
    while wrapper := next(
        (x for x in _WRAPPERS if stored and all(n.startswith(x) for n in stored)), ""
    ):
        names = {name: name.removeprefix(wrapper) for name in stored}
        stored = {names[n].removeprefix(prefix): x for n, x in stored.items()}
        taken_off += wrapper
    return stored, taken_off


def _stored_classifier(folder: Path, encoder: EncoderConfig) -> dict[str, _Stored]:
    """Return the tensors of a classifier of pooled states, if the folder has one."""
    dense = classifier_of(folder, encoder)
    stored = {} if dense is None else _stored(dense, "")
    return {f"{DENSE}.{name}": tensor for name, tensor in stored.items()}


def _read(stored: Mapping[str, _Stored]) -> dict[str, np.ndarray]:
    """Read the values of tensors as float32."""
    # By way of jax, since NumPy itself has no bfloat16; not to an accelerator.
    host = jax.local_devices(backend="cpu")[0]
    values = {}
    for file in sorted({tensor.file for tensor in stored.values()}):
        with _open(file) as content, jax.default_device(host):
            for name, tensor in stored.items():
                if tensor.file == file:
                    array = content.get_tensor(tensor.name)
                    values[name] = np.asarray(array, np.float32)
                    if not np.isfinite(values[name]).all():
                        raise InputError(
                            f"{file}: tensor {tensor.name} is not finite; the model "
                            "that was saved had diverged: take other weights"
                        )
    return values


def checksum(folder: Path) -> str:
    """Return a checksum of the tensors of a folder, in one file or several.

    Names, types, shapes and values count, their order and places in files do not.

    Raises:
      InputError: there are no weights, or they cannot be read.
    """
    stored, whole = _stored(folder, ""), hashlib.sha256()
    host = jax.local_devices(backend="cpu")[0]
    with contextlib.ExitStack() as files, jax.default_device(host):
        opened = {
            file: files.enter_context(_open(file))
            for file in sorted({tensor.file for tensor in stored.values()})
        }
        for name, tensor in sorted(stored.items()):
            whole.update(f"{name} {tensor.kind} {tensor.shape}\n".encode())
            array = np.asarray(opened[tensor.file].get_tensor(tensor.name))
            whole.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return whole.hexdigest()


def _weight_files(folder: Path) -> list[Path]:
    index = folder / (WEIGHTS + ".index.json")
    if index.exists():
        shards = read_json(index).get("weight_map")
        if not isinstance(shards, dict) or not shards:
            raise InputError(f"{index}: has no weight_map; fetch it again")
        for shard in shards.values():
            if not isinstance(shard, str) or not FILE_NAME.fullmatch(shard):
                raise InputError(
                    f"{index}: weight_map has {quote(shard)}, which is not the "
                    "name of a file in this folder; fetch it again"
                )
        return [folder / shard for shard in sorted(set(shards.values()))]
    single = folder / WEIGHTS
    if single.exists():
        return [single]
    pickled = [name for name in PICKLED if (folder / name).exists()]
    if pickled:
        config = read_json(folder / CONFIG) if (folder / CONFIG).exists() else {}
        named = config.get("architectures")
        named = named[0] if isinstance(named, list) and named else None
        is_name = isinstance(named, str) and named.isidentifier()
        raise InputError(
            f"{folder / pickled[0]}: pickle files are not read, they can run code; "
            'convert it where PyTorch is installed: python -c "from transformers '
            f"import {named if is_name else 'AutoModel'} as M; "
            f"M.from_pretrained('{folder}').save_pretrained('{folder}')\""
        )
    raise InputError(
        f"{folder}: holds no {WEIGHTS}; of a hub id, name a revision that has it "
        "(--encoder.revision refs/pr/N is a pull request)"
    )


def config_from(content: Mapping[str, Any], origin: str = "config") -> EncoderConfig:
    """Return the architecture in the content of a `config.json`.

    Raises:
      InputError: the architecture or a setting is not supported.
    """
    classes = EncoderConfig.__subclasses__()
    for cls in classes:  # it grows
        classes += cls.__subclasses__()
    by_type = {k: cls for cls in classes for k in vars(cls).get("model_types", ())}
    kind = content.get("model_type")
    if not isinstance(kind, str) or kind not in by_type:
        raise InputError(
            f"{origin}: model_type is {quote(kind)}; nearest to it is "
            f"{NEAREST.get(str(kind), 'modernbert')!r}; supported: "
            f"{', '.join(map(repr, sorted(by_type)))}"
        )
    try:
        return by_type[kind](**by_type[kind].fields_of(content))
    except (TypeError, ValueError) as error:
        raise InputError(f"{origin}: {error}") from error


def read_config(folder: Path, pooling: Pooling = "auto") -> EncoderConfig:
    """Read `config.json`, and how a sentence-transformers folder pools.

    Args:
      folder: model folder.
      pooling: what represents a text; "auto": as `1_Pooling/config.json` says, or where
        `modules.json` has it, without which the architecture has its own form.

    Raises:
      InputError: a file is missing, is not JSON, or describes another architecture, or
        the folder pools otherwise, or is an adapter of a model.
    """
    adapters.require_none(folder)
    file = folder / CONFIG
    content = {key: x for key, x in read_json(file).items() if key != "pooling"}
    encoder = config_from(content, str(file))
    if pooling == "auto":
        pooling = read_pooling(folder, encoder.width)
    return dataclasses.replace(encoder, pooling=pooling)


@dataclasses.dataclass(frozen=True)
class Weights:
    """Weights of a folder for a network.

    Attributes:
      params: the nested dict of the encoder under "encoder", and of each head found in
        the folder under "heads"; float32 NumPy arrays, layers stacked.
      new_heads: names of the heads not found.
      notes: why heads that are there were not taken; what names were read without.
    """

    params: Params
    new_heads: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def over(self, params: Params) -> Params:
        """Return initial parameters with these in their place."""
        heads = params["heads"] | self.params["heads"]
        return params | {"encoder": self.params["encoder"], "heads": heads}


def problem_type(head: SequenceHead) -> str:
    """Return the `problem_type` in the `config.json` of a model with this head."""
    kind = "multi_label" if head.multi_label else "single_label"
    return f"{kind}_classification"


def read_weights(
    folder: Path, network: Network, labels: Sequence[str] | None = None
) -> Weights:
    """Read the weights of an encoder, and of its heads where they fit.

    A head does not fit where `config.json` has another `problem_type`, or names other
    labels or another order of them.

    Args:
      folder: holds `model.safetensors`, or its shards with
        `model.safetensors.index.json`; with or without the prefix of a task model, with
        today's names or old ones.
      network: its encoder must be that of the folder.
      labels: names of the heads' classes, in their order; None takes any.

    Raises:
      InputError: pickle-only folder, unreadable file, or tensors that are missing,
        unexpected or of the wrong shape, all listed in one message; or a tensor that
        is not finite.
    """
    family = family_of(network.encoder)
    network.check_memory(str(folder / CONFIG))
    stored, wrapper = _unwrapped(_stored(folder, family.prefix), family.prefix)
    if network.text_summary is not None and network.encoder.is_pooled:
        stored |= _stored_classifier(folder, network.encoder)
    depth = network.encoder.distinct_layers
    if depth > len(stored):  # before the names of all are listed
        raise InputError(
            f"{folder}: config.json wants {depth} layers, but the "
            f"weights are {len(stored)} tensors; take both from one model"
        )
    shapes = jax.eval_shape(network.init, jax.random.key(0))
    encoder = list(leaves(family.encoder_in(stored), shapes["encoder"]))
    heads = {
        name: list(leaves(family.tensors(head, network.encoder), shapes["heads"][name]))
        for name, head in network.heads
        if family.task_class(head, network.encoder) is not None
    }
    expected = {
        name
        for leaf in itertools.chain(encoder, *heads.values())
        for name in leaf.names
    }
    problems = list(dict.fromkeys(_misfits(encoder, stored))) + [
        f"unexpected {name} {tensor.shape}"
        for name, tensor in stored.items()
        if name not in expected and not UNUSED.search(name)
    ]
    problems += [
        f"{name} holds {stored[name].kind}, want one of {', '.join(_FLOATS)}"
        for name in expected & stored.keys()
        if stored[name].kind not in _FLOATS
    ]
    if problems:
        listed = "; ".join(sorted(problems)[:_LISTED])
        more = f"; and {len(problems) - _LISTED} more" * (len(problems) > _LISTED)
        raise InputError(f"{folder}: weights do not fit config.json: {listed}{more}")
    fitting = {
        name: every for name, every in heads.items() if not any(_misfits(every, stored))
    }
    notes = _other_meanings(folder, network, fitting, labels)
    fitting = {name: every for name, every in fitting.items() if name not in notes}
    present = _architectures(folder)
    of_texts = family.classes + family.heads[SequenceHead][1]
    for name, head in network.heads:
        task_class = family.task_class(head, network.encoder)
        if name in fitting | notes:
            continue
        if task_class in present:
            why = "its head has other shapes"
        elif task_class == SENTENCES and of_texts in present:
            why = "its head reads texts otherwise"
        elif isinstance(head, SequenceHead) and dense_of(folder) is not None:
            why = "its Dense module is not read"
        else:
            continue
        notes[name] = f"{folder}: {why}: {quote(name)} begins with random weights"
    chosen = itertools.chain(encoder, *fitting.values())
    tensors = _read({name: stored[name] for leaf in chosen for name in leaf.names})
    params = {
        "encoder": _assemble(encoder, tensors),
        "heads": {name: _assemble(every, tensors) for name, every in fitting.items()},
    }
    new = tuple(name for name, _ in network.heads if name not in fitting)
    if note := adapters.note_of(folder):
        notes["adapters"] = note
    if wrapper:
        notes[wrapper] = f"{folder}: read without {quote(wrapper)} before all names"
    return Weights(params, new, tuple(notes.values()))


def _other_meanings(
    folder: Path,
    network: Network,
    fitting: Collection[str],
    labels: Sequence[str] | None,
) -> dict[str, str]:
    """Return a note for each head whose shapes fit, but whose outputs mean others."""
    if not fitting:
        return {}
    file = folder / CONFIG
    config, family = read_json(file), family_of(network.encoder)
    problem, names = config.get("problem_type"), _label_names(config)
    other = family.task_classes & set(config.get("architectures") or ())
    notes = {}
    for name, head in network.heads:
        if name not in fitting:
            continue
        task_class = family.task_class(head, network.encoder)
        kind = problem_type(head) if isinstance(head, SequenceHead) else None
        # ModernBERT's heads have the same tensors whatever they are for.
        if other and task_class not in other:
            difference = (
                f"architectures names {', '.join(other)}, the task's is {task_class}"
            )
        elif kind is not None and problem not in (None, kind):
            difference = f"problem_type is {quote(problem)}, the task's is {kind!r}"
        elif (
            isinstance(head, SequenceHead | TokenHead)
            and labels is not None
            and names not in (None, list(labels))
        ):
            few = [", ".join(map(quote, some[:5])) for some in (names, labels)]
            difference = f"labels are {few[0]}, the data's in this order {few[1]}"
        else:
            continue
        notes[name] = f"{file}: {difference}: the head begins with random weights"
    return notes


def _label_names(config: Mapping[str, Any]) -> list[str] | None:
    """Return the labels of a configuration; None for none, or those of its default."""
    id2label = config.get("id2label")
    if not isinstance(id2label, dict):
        return None
    names = [id2label.get(str(number)) for number in range(len(id2label))]
    if None in names or names == [f"LABEL_{n}" for n in range(len(names))]:
        return None
    return [str(name) for name in names]


def _misfits(expected: Iterable[Leaf], stored: Mapping[str, _Stored]) -> Iterator[str]:
    for leaf in expected:
        for name in leaf.names:
            if name not in stored:
                yield f"missing {name} {leaf.shape}"
            elif (shape := stored[name].shape) != leaf.shape:
                yield f"{name} is {shape}, config.json wants {leaf.shape}"


def _assemble(expected: Iterable[Leaf], tensors: Mapping[str, np.ndarray]) -> Params:
    return unflatten_dict({leaf.path: leaf.from_tensors(tensors) for leaf in expected})
