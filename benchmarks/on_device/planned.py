"""Does the plan hold? Memory and time by `dicejax plan` vs. those of section fast."""

from __future__ import annotations

import json
from typing import Any

import planned_steps

from dicejax.planning import topologies
from on_device.fast import FORMS
from on_device.report import Report

NEEDS = 20.0


def run(report: Report) -> None:
    """Compile each measured step for a device of the measured kind."""
    topologies.without_devices()
    kinds = {device.kind: device for device in topologies.DEVICES.values()}
    for file in sorted(report.file.parent.glob("fast-*.json")):
        content = json.loads(file.read_text())
        device = kinds.get(content["card"])
        topology = "h100:1" if device is None else f"{device.name}:1"
        rows = [row for row in content["rows"] if row.get("what") in FORMS]
        for row in rows:
            if "error" not in row:
                report.attempt(
                    lambda r=row, t=topology: of_row(r, t),
                    needs=0.0 if report.smallest else NEEDS,
                    card=content["card"],
                    model=row["model"],
                    what=row["what"],
                    length=row["length"],
                )


def of_row(row: dict[str, Any], topology: str) -> dict[str, Any]:
    """Return the plan of a measured step, and what was measured."""
    size = f"1,1,1/{row['rows']}/t{row['length']}"
    name = f"{row['model']}/{topology}/{size}"
    plan = planned_steps.plan(name, trained_on=FORMS[row["what"]])
    return {
        "planned_gib": plan.peak / 2**30,
        "peak_gib": row["peak_gib"],
        "planned_ms": None if plan.bound is None else 1e3 * plan.bound,
        "ms_per_step": row["ms_per_step"],
    }
