"""Context of a comparison: data, task, encoder, training, seeds, hardware, losses."""

from __future__ import annotations

from collections.abc import Sequence

from dicejax.config import Experiment
from dicejax.study.compare.jobs import is_resampled
from dicejax.study.compare.statistics import Row
from dicejax.study.report.material import Material
from dicejax.training.outline import encoder_name

CONTROLS = {
    "logit adjustment": "cross-entropy runs, logits shifted by the class frequencies",
    "tuned threshold": "cross-entropy runs, decision threshold chosen on dev",
}


def of(rows: Sequence[Row], experiment: Experiment) -> tuple[tuple[str, str], ...]:
    """Return names and texts of the context; numbers that runs lack are left out."""
    results = [one.result for row in rows for one in row.outcomes if one.result]
    first = next(one for one in results if "control" not in one)
    seeds = sorted({one.seed for row in rows for one in row.outcomes})
    sizes = first.get("examples") or {}
    data = " / ".join(f"{n:,} {split}" for split, n in sizes.items())
    data = f"{experiment.name}: {data} examples" if data else experiment.name
    if is_resampled(experiment):
        data += ", another training sample for each seed"
    training = [f"{first['steps']:,} updates"] if "steps" in first else []
    training += [
        f"learning rate {experiment.optimizer.learning_rate:g}",
        f"batches of {experiment.training.batch_size}",
        experiment.training.precision,
    ]
    found = {
        "Data": data,
        "Task": type(experiment.task).__name__,
        "Encoder": encoder_name(experiment.encoder, first.get("parameters")),
        "Training": ", ".join(training),
        "Seeds": f"{len(seeds)} ({seeds[0]} to {seeds[-1]})" if seeds[1:] else "1",
    }
    if "device_kind" in first:
        found["Hardware"] = f"{first['devices']} x {first['device_kind']}"
    return tuple(found.items())


def losses(
    rows: Sequence[Row], materials: Sequence[Material]
) -> tuple[tuple[str, str], ...]:
    """Return a description of each loss by its name."""
    known = {m.loss: m.experiment.objective for m in materials if m.experiment}
    found = []
    for row in rows:
        if row.loss in known:
            text = (type(known[row.loss]).__doc__ or "").partition("\n")[0]
        else:
            kind = row.loss.rpartition(" + ")[2]
            text = CONTROLS.get(kind, "")
        found.append(
            (row.loss, f"{text.rstrip('.')} (control)" if row.is_control else text)
        )
    return tuple(found)
