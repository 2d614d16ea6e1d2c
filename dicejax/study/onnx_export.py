"""ONNX files of an exported run: written, and refused where they predict worse."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dicejax.errors import InputError
from dicejax.metrics.scores import primary_name
from dicejax.study.compare.testing import MARGIN
from dicejax.study.significance import score, seeds_and_items, verdict
from dicejax.training import onnx
from dicejax.training.export import ROUNDING, Exported


def add(exported: Exported, *, force: bool = False) -> Iterator[str]:
    """Write the ONNX files of a folder, and yield a sentence about each.

    Both predict dev by onnxruntime, where it is there, and are paired with the run
    example by example. The interval is for new examples; the run is one, so no other
    seed is spoken of.

    Raises:
      InputError: they cannot be written, or a file is worse than the run, or the one in
        float32 differs by more than rounding, and `force` is not set.
    """
    onnx.require(exported.network)
    onnx.write(exported)
    if isinstance(exported.dev, InputError):
        yield f"{' and '.join(onnx.FILES)} were not compared with the run."
    metric = primary_name(exported.run.result())
    for file in onnx.predict_dev(exported):
        result, is_worse = compare(file, metric)
        text = (
            f"{file.name}, by onnxruntime on {len(file.shares):,} dev examples: "
            f"{result}; logits differ by up to {file.difference:.2g} of "
            f"{file.largest:.2g}."
        )
        if is_worse and not force:
            raise InputError(f"{text} Nothing was written; --force writes it")
        yield text


def compare(file: onnx.FileOnDev, metric: str) -> tuple[str, bool]:
    """Return the verdict on a file in words, and whether it is worse."""
    rounding = ROUNDING * max(file.largest, 1)
    limit = rounding if file.name == onnx.FILES[0] else np.finfo(float).max
    if not file.difference <= limit:
        return "worse: more than rounding apart, or not finite", True
    ours, theirs = (np.stack([x, x]) for x in (file.shares, file.run_shares))
    if np.array_equal(ours, theirs):
        return f"identical {metric} on each", False
    difference = seeds_and_items(ours, theirs)  # twice the one run: seeds do not vary
    equal = difference.p_equal(MARGIN)
    conclusion = verdict(
        difference, difference.p_value, equal, margin=MARGIN, metric=metric
    )
    before, after = (100 * score(x) for x in (file.run_shares, file.shares))
    text = f"{conclusion}, from {before:.2f} to {after:.2f}"
    return text, conclusion.outcome == "worse"
