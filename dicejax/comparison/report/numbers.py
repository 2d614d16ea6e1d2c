"""The report for programs: what stands in `comparison.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dicejax import config
from dicejax.comparison.report.document import Document
from dicejax.comparison.report.figures.learning import mean_and_band
from dicejax.comparison.report.figures.thresholds import f1_at
from dicejax.comparison.report.material import Material
from dicejax.comparison.report.rerun import Rerun
from dicejax.comparison.statistics import Row
from dicejax.metrics import score_counts


def completed(
    known: Mapping[str, Any],
    rows: Sequence[Row],
    materials: Sequence[Material],
    document: Document,
    rerun: Rerun,
) -> dict[str, Any]:
    """Return what is written: what is known already, and what the report adds.

    Args:
      known: as `comparison.evaluated` wrote it, if it did.
      rows: of all losses, in the order of the report.
      materials: what their runs hold.
      document: the report.
      rerun: how to run it again.
    """
    test = next(one for row in rows for one in row.outcomes if one.result).result
    return {
        **known,
        "baseline": rows[0].loss,
        "primary_metric": test["primary_metric"],
        "losses": {row.loss: row.to_json() for row in rows},
        "warnings": list(document.warnings),
        "curves": {m.loss: _curves(m) for m in materials if m.experiment},
        "rerun": {
            "experiment": json.loads(config.to_json(rerun.experiment)),
            "command": rerun.command,
            **dict(rerun.facts),
            "differences": list(rerun.special),
        },
        "sections": {one.title: [*one.text, *one.items] for one in document.sections},
    }


def _curves(material: Material) -> dict[str, Any]:
    return {
        "dev": _by_step(material.dev),
        "training_loss": _by_step(material.training),
        "scores": {
            output: _scores(np.sum(list(by_seed.values()), axis=0))
            for output, by_seed in material.counts.items()
        },
        "classes": {
            name: {"support": support, "f1": list(f1)}
            for name, (support, f1) in material.classes.items()
        },
    }


def _by_step(by_seed: Mapping[int, Any]) -> dict[str, Any]:
    mean, low, high = mean_and_band(by_seed)
    return {
        "step": [step for step, _ in mean],
        "mean": [value for _, value in mean],
        "mean_minus_sd": [value for _, value in low],
        "mean_plus_sd": [value for _, value in high],
        "seeds": list(by_seed),
    }


def _scores(counts: np.ndarray) -> dict[str, Any]:
    """Curves of all seeds together, at every eighth threshold: half a unit of odds."""
    found = score_counts.curve(counts)
    kept = slice(None, None, 8)
    return {
        "average_precision": found.average_precision,
        "f1_at_default": f1_at(found),
        "calibration_error": score_counts.calibration_error(counts),
        "threshold": found.thresholds[kept].tolist(),
        "precision": found.precision[kept].tolist(),
        "recall": found.recall[kept].tolist(),
        "reliability": score_counts.reliability(counts),
    }
