"""Steps of large encoders on TPUs and GPUs, compiled without one.

Rows of 512 tokens, bfloat16, dropout 0.1, the self-adjusting dice loss over the batch;
no data is read. Each step is named by its model, its topology, the lengths of the
mesh's axes data, fsdp and tensor, and the rows per device; a policy of recomputation
(`attention`, `layer`), `xK` for K micro-batches, `tN` for rows of N tokens and `long`
for the step of a long training on TPUs, which on GPUs all are, may follow; several
names make several rows. Needs the extras plan-tpu and plan-gpu.

usage:    python benchmarks/planned_steps.py [--smallest] [MODEL/TOPOLOGY/D,F,T/ROWS]
measured: see benchmarks/README.md
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import get_args

from dicejax.errors import InputError
from dicejax.mesh import MeshShape, batch_parts
from dicejax.models.bert import BertConfig
from dicejax.models.deberta import DebertaConfig
from dicejax.models.encoder import EncoderConfig
from dicejax.models.heads import TokenHead
from dicejax.models.modernbert import ModernBertConfig
from dicejax.models.network import Network
from dicejax.models.settings import Remat
from dicejax.models.xlnet import XLNetConfig
from dicejax.objectives import SelfAdjustingDice
from dicejax.planning import topologies
from dicejax.planning.step import Step, StepPlan, plan_step

MODELS: dict[str, EncoderConfig] = {
    "bert-base": BertConfig(vocab_size=28996),
    "modernbert-base": ModernBertConfig(),
    "bert-large": BertConfig(
        vocab_size=28996,
        hidden_size=1024,
        num_hidden_layers=24,
        num_attention_heads=16,
        intermediate_size=4096,
    ),
    "xlnet-large": XLNetConfig(
        vocab_size=32000, d_model=1024, n_layer=24, n_head=16, d_inner=4096
    ),
    "deberta-large": DebertaConfig(
        vocab_size=128100,
        hidden_size=1024,
        num_hidden_layers=24,
        num_attention_heads=16,
        intermediate_size=4096,
    ),
    "modernbert-large": ModernBertConfig(
        hidden_size=1024,
        num_hidden_layers=28,
        num_attention_heads=16,
        intermediate_size=2624,
    ),
    "tiny": BertConfig(
        vocab_size=512,
        hidden_size=128,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=256,
    ),
}
LENGTH = 512
LONG = 10**9
STEPS = (
    "bert-large/v5e:1x1/1,1,1/4",
    "bert-large/v5e:1x1/1,1,1/8",
    "bert-large/v5e:1x1/1,1,1/16",
    "bert-large/v5e:1x1/1,1,1/16/long",
    "bert-large/v5e:1x1/1,1,1/20",
    "bert-large/v5e:1x1/1,1,1/24/attention",
    "bert-large/v5e:1x1/1,1,1/8/layer",
    "bert-large/v5e:1x1/1,1,1/16/layer",
    "bert-large/v5e:1x1/1,1,1/24/layer",
    "bert-large/v5e:1x1/1,1,1/32/layer",
    "bert-large/v5e:4x4/16,1,1/2",
    "bert-large/v5e:4x4/1,16,1/8",
    "bert-large/v5e:4x4/1,16,1/1",
    "bert-large/v5e:4x4/4,1,4/8",
    "bert-large/v5p:2x2x1/4,1,1/8",
    "bert-large/v6e:1x1/1,1,1/8",
    "bert-large/h100:8/8,1,1/8",
    "bert-large/h100:8/1,8,1/4",
    "bert-large/h100:8/2,1,4/8",
    "xlnet-large/v5e:4x4/16,1,1/2",
    "xlnet-large/v5e:4x4/1,16,1/1",
    "xlnet-large/v5e:4x4/4,1,4/8",
    "deberta-large/v5e:4x4/16,1,1/2",
    "deberta-large/v5e:4x4/1,16,1/1",
    "deberta-large/v5e:4x4/4,1,4/8",
    "deberta-large/h100:8/8,1,1/8",
    "modernbert-large/v5e:4x4/16,1,1/2",
    "modernbert-large/v5e:4x4/4,1,4/8",
    "modernbert-large/h100:8/8,1,1/8",
)
COLUMNS = (
    "step",
    "peak GiB",
    "GB moved",
    "GB reduced and gathered",
    "GB sent",
    "M cycles",
    "utilisation by cycles",
    "compiled in s",
)


def plan(name: str, trained_on: int | None = None) -> StepPlan:
    """Compile the step of a name, in a training on so many tokens per device.

    By default the training is long on GPUs, and on TPUs where the name says so.

    Raises:
      InputError: the topology is unknown, or its compiler is missing.
    """
    model, topology_name, axes, per_device, *options = name.split("/")
    topology = topologies.parse_topology(topology_name)
    data, fsdp, tensor = map(int, axes.split(","))
    mesh = MeshShape(data=data, fsdp=fsdp, tensor=tensor).make(topology.devices())
    platform = mesh.devices.flat[0].platform
    if trained_on is None:
        trained_on = LONG if platform == "gpu" or "long" in options else 0
    network = Network(
        encoder=MODELS[model],
        heads=(("tags", TokenHead(classes=9)),),
        precision="bfloat16",
        remat=next((name for name in get_args(Remat) if name in options), "none"),
    ).for_training(trained_on, platform)
    counts = {word[0]: int(word[1:]) for word in options if word[1:].isdigit()}
    step = Step.of_network(
        network,
        SelfAdjustingDice(),
        mesh,
        rows=int(per_device) * batch_parts(mesh),
        length=counts.get("t", LENGTH),
        micro_batches=counts.get("x", 1),
    )
    return plan_step(step, topology)


def row(name: str, plan: StepPlan) -> str:
    """Format a plan as a row of a Markdown table."""
    cells = [name, f"{plan.peak / 2**30:.2f}" + ("" if plan.fits else ", too much")]
    if plan.collectives is None or plan.bytes_moved is None:
        cells += [""] * 5
    else:
        kinds = plan.collectives.items()
        arrays = ", ".join(f"{x['bytes'] / 1e9:.2f} {kind}" for kind, x in kinds)
        cells += [
            f"{plan.bytes_moved / 1e9:.1f}",
            arrays,
            f"{sum(x['wire'] for _, x in kinds) / 1e9:.2f}",
            f"{plan.cycles / 1e6:.1f}" if plan.cycles else "",
            f"{plan.utilisation['cycles']:.1%}" if plan.cycles else "",
        ]
    return "| " + " | ".join([*cells, f"{plan.compile_seconds:.0f}"]) + " |"


def main(argv: Sequence[str]) -> int:
    """Print a table, each row as soon as its step is compiled."""
    names = [word for word in argv if word != "--smallest"]
    if "--smallest" in argv:
        names = ["tiny/v5e:2x2/2,2,1/1"]
    topologies.without_devices()
    print(f"| {' | '.join(COLUMNS)} |")
    print("|" + " --- |" * len(COLUMNS))
    for name in names or STEPS:
        try:
            print(row(name, plan(name)), flush=True)
        except InputError as error:
            print(f"planned_steps.py: {error}", file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
