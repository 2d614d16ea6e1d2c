"""Descriptions of the arguments that losses share.

The decorators of `contract` add them to each docstring, so that the source of a loss
documents only its own arguments.
"""

import inspect
import textwrap

_SHARED = {
    "logits": """finite floats `[..., C]`, or `[...]` in the binary form.""",
    "labels": """integers `[...]` in 0..C-1 (0 or 1 in the binary and the multi-label
        form, -100 is masked), or float probabilities shaped like the logits.""",
    "where": """bool `[...]`; False masks an element, whatever its logits and label.""",
    "axis": """the axes of the labels (classes not counted) that form a set. None: all,
        so one set; `()`: none, so each element is a set; -1: one set per row.""",
    "class_axis": """the axis of the logits that holds the classes; None for the binary
        form, which has none: each logit is that of class 1.""",
    "multi_label": """whether labels are 0 or 1 for each class by itself (a sigmoid),
        and shaped like the logits.""",
    "smooth": """added to numerator and denominator, in units of counts: its weight
        shrinks as sets grow.""",
    "absent": """the loss of a class without gold in its set. "smooth": the formula
        unchanged, so its false positives count. "skip": loss 0 and gradient 0.""",
    "class_weights": """w, floats `[C]`; `[2]` in the binary form (of label 0 and 1);
        `[C, 2]` in the multi-label form. None weighs all 1. Nothing is divided by the
        sum of the weights.""",
    "class_counts": """positive floats `[C]`: how often each class occurs, or anything
        proportional to it; `[2]` in the binary form (of label 0 and 1); `[C, 2]` in the
        multi-label form.""",
    "axis_name": """name or names of the `shard_map` axes over which the set is spread;
        sums then run over all devices. Not needed under plain `jit`.""",
}

_RAISES = """Raises:
  ValueError: if shapes or axes do not fit, or if a known label or hyper-parameter is
    out of its range. Labels that are traced and out of range are masked.
"""


def complete(docstring: str, parameters: list[str], raises: bool = True) -> str:
    """Return a docstring with the shared arguments and errors that it leaves out."""
    docstring = inspect.cleandoc(docstring)
    head, found, tail = docstring.partition("\nArgs:\n")
    if not found:
        head, _, tail = docstring.partition("\nReturns:\n")
        tail = "\nReturns:\n" + tail
    own, _, rest = tail.partition("\n\n")
    entries = _entries(own)
    lines = []
    for name in parameters:
        if name in entries:
            lines += entries[name]
        elif name in _SHARED:
            lines += _entry(name)
    arguments = "\nArgs:\n" + "\n".join(lines) + "\n\n"
    body = rest if found else tail.lstrip("\n")
    if raises and "\nRaises:\n" not in body:
        before, source, after = body.partition("Source:")
        body = before + _RAISES + "\n" + source + after
    return head + arguments + body


def described_arguments(docstring: str) -> dict[str, str]:
    """Return the descriptions in the `Args` of a docstring, by argument."""
    section = inspect.cleandoc(docstring).partition("\nArgs:\n")[2]
    entries = _entries(section.partition("\n\n")[0])
    return {
        name: " ".join(" ".join(lines).split()).partition(": ")[2]
        for name, lines in entries.items()
    }


def _entries(section: str) -> dict[str, list[str]]:
    """Return the lines of each argument."""
    entries: dict[str, list[str]] = {}
    for line in section.splitlines():
        if line.startswith("  ") and not line.startswith("   "):
            entries[line.strip().partition(":")[0]] = []
        if entries:
            list(entries.values())[-1].append(line)
    return entries


def _entry(name: str) -> list[str]:
    text = " ".join(_SHARED[name].split())
    return textwrap.wrap(
        f"{name}: {text}", 86, initial_indent="  ", subsequent_indent="    "
    )
