"""Cost of the encoders: a training step vs. PyTorch's, compile time, memory.

Three tables. One: a training step (dropout on, AdamW, clipping) of a model folder's
weights with a token head vs. the same model in PyTorch's transformers, with
scaled-dot-product attention where it has that, in turn; the ratio is the median over
rounds of that of our faster precision to PyTorch's faster one. Two: the time to lower
and compile that step for 24 layers (`--deepest`) as a multiple of 6 layers. Three: the
temporary memory of such a step, as compiled, without and with recomputation. Exits with
1 if a limit is broken.

`--tables types` makes a fourth: the step of every `model_type` that loads, in one shape
and with random weights, vs. the same model in PyTorch.

Without MODEL_FOLDER the weights are random, and the flags give kind and size: on a GPU
--layers 24 --width 1024 --heads 16 --batch 32 --length 384 --torch_compile
--peak_tflops 989 is BERT-large on an H200.

usage:    python benchmarks/encoders.py [MODEL_FOLDER] [--smallest]
needs:    pip install -e ".[parity]"
measured: see benchmarks/README.md
"""

from __future__ import annotations

import dataclasses
import inspect
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import jax
import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from dicejax.cli.process import spare_copies
from dicejax.models import huggingface
from dicejax.models.bert import BertConfig
from dicejax.models.deberta import DebertaConfig
from dicejax.models.encoder import EncoderConfig
from dicejax.models.heads import TokenHead
from dicejax.models.huggingface.names import FAMILIES
from dicejax.models.modernbert import ModernBertConfig
from dicejax.models.mpnet import MPNetConfig
from dicejax.models.network import Network
from dicejax.models.settings import Remat
from dicejax.models.xlnet import XLNetConfig
from dicejax.objectives import CrossEntropy
from dicejax.optimizers import AdamW
from dicejax.training.state import TrainState
from dicejax.training.step import train_step

CLASSES = 9
SHALLOW = 6
COMPILE_LIMIT = 1.5
REMAT_LIMIT = 3.0
SPEED_LIMIT = 1.0
ROLES = ("pad", "bos", "eos", "cls", "sep")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of the measurement.

    Args:
      model: folder with config.json and model.safetensors; random weights without it.
      kind: architecture, where there is no folder.
      layers: number of layers, where there is no folder.
      width: width of the hidden states, where there is no folder.
      heads: number of attention heads, where there is no folder.
      batch: rows per step.
      length: tokens per row.
      rounds: number of timings of each step.
      steps: training steps per round.
      tables: tables to make.
      deepest: layers of the second and the third table.
      types: model types of the fourth table; all by default.
      torch_compile: compile PyTorch's model with torch.compile.
      peak_tflops: peak of the device in bfloat16, to print the share that is reached.
      smallest: smoke test with the smallest sizes and no limits.
    """

    model: Annotated[
        tyro.conf.Positional[Path | None], tyro.conf.arg(metavar="MODEL_FOLDER")
    ] = None
    kind: Literal["bert", "deberta", "modernbert", "mpnet", "xlnet"] = "bert"
    layers: int = 6
    width: int = 384
    heads: int = 12
    batch: int = 8
    length: int = 128
    rounds: int = 7
    steps: int = 3
    tables: tuple[str, ...] = ("speed", "compile", "memory")
    deepest: int = 24
    types: tuple[str, ...] = tuple(FAMILIES)
    torch_compile: bool = False
    peak_tflops: float | None = None
    smallest: bool = False


SMALLEST = {"layers": 1, "width": 16, "heads": 2, "batch": 2, "length": 8}


def batch_of(config: EncoderConfig, rows: int, length: int) -> dict[str, np.ndarray]:
    """Draw rows of one segment each, without padding."""
    rng = np.random.default_rng(0)
    shape = (rows, length)
    return {
        "input_ids": rng.integers(999, config.vocab_size, shape, dtype=np.int32),
        "segment_ids": np.ones(shape, np.int32),
        "position_ids": np.broadcast_to(np.arange(length, dtype=np.int32), shape),
        "token_type_ids": np.zeros(shape, np.int32),
        "tags": rng.integers(0, CLASSES, shape, dtype=np.int32),
    }


def network_of(
    config: EncoderConfig, precision: str = "float32", remat: Remat = "none"
) -> Network:
    """Return the encoder with a token head."""
    heads = (("tags", TokenHead(classes=CLASSES)),)
    return Network(encoder=config, heads=heads, precision=precision, remat=remat)


def lowered(network: Network, rows: int, length: int):
    """Lower the training step of a network."""
    optimizer = AdamW()

    def fresh(key):
        return TrainState.create(
            network.init(key), optimizer, total_steps=1000, rng=key
        )

    state = jax.eval_shape(fresh, jax.random.key(0))
    batch = batch_of(network.encoder, rows, length)
    return train_step.lower(
        state, batch, CrossEntropy(), network=network, optimizer=optimizer
    )


def our_steps(
    settings: Settings, folder: Path, precision: str
) -> Callable[[int], None]:
    """Return a function that takes some training steps and waits for them."""
    config = huggingface.read_config(folder)
    network = network_of(config, precision)
    weights = huggingface.read_weights(folder, network)
    optimizer = AdamW()
    state = TrainState.create(
        jax.device_put(weights.over(jax.jit(network.init)(jax.random.key(0)))),
        optimizer,
        total_steps=1_000_000,
        rng=jax.random.key(1),
    )
    batch = jax.device_put(batch_of(config, settings.batch, settings.length))
    holder = [state]

    def take(steps: int) -> None:
        for _ in range(steps):
            holder[0], _ = train_step(
                holder[0], batch, CrossEntropy(), network=network, optimizer=optimizer
            )
        jax.block_until_ready(holder[0].params)

    return take


def torch_steps(
    settings: Settings, folder: Path, precision: str
) -> Callable[[int], None]:
    """Return PyTorch's; "bfloat16" is autocast, "pure bfloat16" all weights too."""
    import torch
    from transformers import AutoModelForTokenClassification

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    pure = precision == "pure bfloat16"
    model = AutoModelForTokenClassification.from_pretrained(
        folder,
        num_labels=CLASSES,
        dtype=torch.bfloat16 if pure else torch.float32,
    )
    model = model.to(device).train()
    call = torch.compile(model) if settings.torch_compile else model
    optimizer = torch.optim.AdamW(model.parameters(), 5e-5, fused=True)
    arrays = batch_of(huggingface.read_config(folder), settings.batch, settings.length)
    names = {
        "input_ids": "input_ids",
        "attention_mask": "segment_ids",
        "token_type_ids": "token_type_ids",
        "labels": "tags",
    }
    if "token_type_ids" not in inspect.signature(model.forward).parameters:
        del names["token_type_ids"]
    inputs = {
        theirs: torch.tensor(arrays[ours], dtype=torch.long, device=device)
        for theirs, ours in names.items()
    }

    def take(steps: int) -> None:
        for _ in range(steps):
            torch_update(model, call, optimizer, inputs, precision == "bfloat16")
        if device == "cuda":
            torch.cuda.synchronize()

    return take


def torch_update(
    model: Any, call: Any, optimizer: Any, inputs: dict[str, Any], autocast: bool
) -> None:
    """Take PyTorch's step on a batch, clipped; `call` is the model, compiled or not."""
    import torch
    from torch.nn.utils import clip_grad_norm_

    device = inputs["input_ids"].device.type
    with torch.autocast(device, torch.bfloat16, enabled=autocast):
        loss = call(**inputs).loss
    loss.backward()
    clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def milliseconds(take: Callable[[int], None], steps: int) -> float:
    """Time some steps after one to get warm; milliseconds of one."""
    take(1)
    start = time.perf_counter()
    take(steps)
    return (time.perf_counter() - start) / steps * 1e3


def speed(settings: Settings, folder: Path, most: int = 3) -> list[dict[str, Any]]:
    """Time all in every round, right after one another, to and fro.

    `most` is the number of PyTorch's precisions.
    """
    precisions = ("float32", "bfloat16", "pure bfloat16")
    config = huggingface.read_config(folder)
    # PyTorch's XLNet has no bfloat16 weights: it computes distances in float32.
    most = 1 if settings.smallest else min(most, 3 - isinstance(config, XLNetConfig))
    rivals = {
        f"dicejax {precision}": our_steps(settings, folder, precision)
        for precision in precisions[: min(most, 2)]
    } | {
        f"PyTorch {precision}": torch_steps(settings, folder, precision)
        for precision in precisions[:most]
    }
    for take in rivals.values():
        take(2)
    times: dict[str, list[float]] = {name: [] for name in rivals}
    for turn in range(settings.rounds):
        for name in list(rivals)[:: 1 if turn % 2 else -1]:
            times[name].append(milliseconds(rivals[name], settings.steps))
    return [
        {
            "name": name,
            "median_ms": statistics.median(values),
            "min_ms": min(values),
            "sequences_per_s": settings.batch / statistics.median(values) * 1e3,
            "share_of_peak": share_of_peak(
                config, settings, statistics.median(values) / 1e3
            ),
            "rounds_ms": values,
        }
        for name, values in times.items()
    ]


def typed_folder(kind: str, settings: Settings, folder: Path) -> Path:
    """Write a model of transformers' own class, with random weights."""
    import torch
    from transformers import AutoConfig, AutoModelForTokenClassification

    width = settings.width
    inner = (3 * width // 2) if kind == "modernbert" else 4 * width
    names = ("hidden_size", "num_hidden_layers", "num_attention_heads")
    inner_name = {"distilbert": "hidden_dim", "xlnet": "d_inner"}
    if kind == "xlnet":
        names = ("d_model", "n_layer", "n_head")
    sizes = zip(names, (width, settings.layers, settings.heads), strict=True)
    more = {inner_name.get(kind, "intermediate_size"): inner, "vocab_size": 30522}
    more["num_labels"] = CLASSES
    if kind == "deberta-v2":  # as the released ones have it
        more |= {"relative_attention": True, "position_buckets": 256}
        more |= {"share_att_key": True, "pos_att_type": "p2c|c2p"}
        more |= {"norm_rel_ebd": "layer_norm", "position_biased_input": False}
    more |= {f"{role}_token_id": n for n, role in enumerate(ROLES)}
    if kind == "mpnet":  # as the released one has it: 512 places behind two others
        more |= {"pad_token_id": 1, "bos_token_id": 0, "max_position_embeddings": 514}
    torch.manual_seed(0)
    config = AutoConfig.for_model(kind, **dict(sizes), **more)
    model = AutoModelForTokenClassification.from_config(config)
    model.save_pretrained(folder / kind)
    return folder / kind


def speed_of_types(settings: Settings) -> list[dict[str, Any]]:
    """Time a step of each type, ours and PyTorch's in turn."""
    rows = []
    for kind in settings.types[: 2 if settings.smallest else None]:
        with tempfile.TemporaryDirectory() as made:
            times = speed(settings, typed_folder(kind, settings, Path(made)), most=2)
        medians = {row["name"]: row["median_ms"] for row in times}
        ratio = faster_than_torch(times)
        rows.append({"model_type": kind, **medians, "times as fast": ratio})
        print(kind, f"{ratio:.2f} times, load {os.getloadavg()[0]:.1f}", flush=True)
        jax.clear_caches()
    return rows


def processor() -> str:
    """Return the name of the processor, and its instructions for matrices."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    by_name = {name.strip(): value.strip() for name, value in fields.items()}
    wide = {"avx512_bf16", "amx_bf16"} & {*by_name.get("flags", "").split()}
    return f"{by_name.get('model name', '?')}, {' '.join(sorted(wide)) or 'plain'}"


def share_of_peak(
    config: EncoderConfig, settings: Settings, seconds: float
) -> float | None:
    """Count 6 operations per layer weight and token, and attention's 12 L T D."""
    if settings.peak_tflops is None:
        return None
    params = jax.eval_shape(network_of(config).init, jax.random.key(0))
    weights = sum(x.size for x in jax.tree.leaves(params["encoder"]["layers"]))
    per_token = 6 * weights + 12 * config.depth * settings.length * config.width
    tokens = settings.batch * settings.length
    return per_token * tokens / seconds / settings.peak_tflops / 1e12


def faster_than_torch(rows: list[dict[str, Any]]) -> float:
    """Return the median over rounds of PyTorch's faster time to our faster one."""

    def fastest(side: str) -> list[float]:
        columns = [row["rounds_ms"] for row in rows if row["name"].startswith(side)]
        return [min(values) for values in zip(*columns, strict=True)]

    pairs = zip(fastest("PyTorch"), fastest("dicejax"), strict=True)
    return statistics.median(theirs / ours for theirs, ours in pairs)


def architectures(depth: int, width: int = 256) -> dict[str, EncoderConfig]:
    """Return all kinds in one size."""
    sizes = {
        "vocab_size": 2000,
        "hidden_size": width,
        "num_hidden_layers": depth,
        "num_attention_heads": 4,
        "intermediate_size": 4 * width,
    }
    return {
        "BERT": BertConfig(**sizes),
        "DeBERTa": DebertaConfig(**sizes),
        "MPNet": MPNetConfig(**sizes),
        "XLNet": XLNetConfig(
            vocab_size=2000, d_model=width, n_layer=depth, n_head=4, d_inner=4 * width
        ),
        "ModernBERT": ModernBertConfig(
            vocab_size=2000,
            hidden_size=width,
            num_hidden_layers=depth,
            num_attention_heads=4,
            intermediate_size=3 * width // 2,
        ),
    }


def compile_seconds(config: EncoderConfig) -> float:
    """Time lowering and compiling a training step."""
    network = network_of(config)
    jax.eval_shape(network.init, jax.random.key(0))
    jax.clear_caches()
    start = time.perf_counter()
    lowered(network, 8, 128).compile()
    return time.perf_counter() - start


def compile_times(settings: Settings) -> list[dict[str, Any]]:
    """Time many layers vs. 6; the minimum of three each, in turn."""
    shallow, deep = (1, 2) if settings.smallest else (SHALLOW, settings.deepest)
    rows = []
    for name in list(architectures(shallow))[: 1 if settings.smallest else None]:
        times = {depth: [] for depth in (shallow, deep)}
        for _ in range(3 if not settings.smallest else 1):
            for depth, values in times.items():
                values.append(compile_seconds(architectures(depth)[name]))
        least = {str(depth): min(values) for depth, values in times.items()}
        ratio = least[str(deep)] / least[str(shallow)]
        rows.append({"name": name, **least, "times": ratio})
    return rows


def memory(settings: Settings) -> list[dict[str, Any]]:
    """Return the temporary memory of a deep step, MiB."""
    rows = []
    depth, shape = (
        (settings.deepest, (8, 256)) if not settings.smallest else (2, (2, 8))
    )
    made = list(architectures(depth).items())
    for name, config in made[:1] if settings.smallest else made:
        sizes = []
        for remat in ("none", "layer"):
            program = lowered(network_of(config, remat=remat), *shape).compile()
            sizes.append(program.memory_analysis().temp_size_in_bytes / 2**20)
        plain, less = sizes
        rows.append(
            {"name": name, "plain": plain, "remat": less, "times": plain / less}
        )
    return rows


def show(console: Console, title: str, rows: list[dict[str, Any]]) -> None:
    """Print a table."""
    names = [key for key in rows[0] if key != "rounds_ms" and rows[0][key] is not None]
    table = Table(*names, title=title, title_justify="left")
    for row in rows:
        cells = [row[name] for name in names]
        table.add_row(*(f"{c:,.2f}" if isinstance(c, float) else str(c) for c in cells))
    console.print(table)


def random_folder(settings: Settings, folder: Path) -> Path:
    """Write a model of the kind and the size that the flags give."""
    sizes = {
        "hidden_size": settings.width,
        "num_hidden_layers": settings.layers,
        "num_attention_heads": settings.heads,
    }
    config: EncoderConfig
    if settings.kind == "modernbert":
        config = ModernBertConfig(**sizes, intermediate_size=3 * settings.width // 2)
    elif settings.kind == "xlnet":
        config = XLNetConfig(
            d_model=settings.width,
            n_layer=settings.layers,
            n_head=settings.heads,
            d_inner=4 * settings.width,
            vocab_size=32000,
        )
    else:
        kind = {
            "bert": BertConfig,
            "deberta": DebertaConfig,
            "mpnet": MPNetConfig,
        }[settings.kind]
        wide, places = 4 * settings.width, 514 if settings.kind == "mpnet" else 512
        config = kind(
            **sizes,
            vocab_size=30522,
            intermediate_size=wide,
            max_position_embeddings=places,
        )
    network = network_of(config)
    params = jax.jit(network.init)(jax.random.key(0))
    huggingface.write(folder / "model", network, params)
    return folder / "model"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, and return 1 if a limit is broken."""
    settings = tyro.cli(Settings, description=__doc__, use_underscores=True, args=argv)
    spare_copies()  # as the command does
    if settings.smallest:
        settings = dataclasses.replace(settings, **SMALLEST, rounds=1, steps=1)
    console, broken = Console(), []
    device = jax.devices()[0]
    console.print(f"{device.device_kind}, load {os.getloadavg()[0]:.2f} at the start")
    if "speed" in settings.tables:
        with tempfile.TemporaryDirectory() as made:
            folder = settings.model or random_folder(settings, Path(made))
            rows = speed(settings, folder)
        shape = f"[{settings.batch}, {settings.length}]"
        show(console, f"A training step on {shape}", rows)
        times = faster_than_torch(rows)
        console.print(f"{times:.2f} times as fast as PyTorch, faster against faster")
        if times < SPEED_LIMIT:
            broken.append(f"a step is {times:.2f} times as fast, not {SPEED_LIMIT}")
    if "types" in settings.tables or settings.smallest:
        rows = speed_of_types(settings)
        shape = f"[{settings.batch}, {settings.length}]"
        show(console, f"A training step on {shape} by type, {processor()}", rows)
    for key, measure, title in (
        ("compile", compile_times, "Seconds to lower and compile, by layers"),
        ("memory", memory, "Temporary memory of as many on [8, 256], MiB"),
    ):
        if key not in settings.tables:
            continue
        rows = measure(settings)
        show(console, title, rows)
        for row in rows:
            if key == "compile" and row["times"] > COMPILE_LIMIT:
                broken.append(
                    f"{row['name']} compiles {row['times']:.2f} times as long"
                )
            if key == "memory" and row["times"] < REMAT_LIMIT:
                broken.append(f"{row['name']} saves {row['times']:.2f} times only")
    for line in broken if not settings.smallest else ():
        console.print(f"limit broken: {line}", style="red")
    return int(bool(broken) and not settings.smallest)


if __name__ == "__main__":
    sys.exit(main())
