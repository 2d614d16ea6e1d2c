"""A JSON file that is written anew as a whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def write_json(file: Path, content: Any) -> None:
    """Write a file that is never seen half-written."""
    partial = file.with_name(f"{file.name}.partial")
    partial.write_text(json.dumps(content, indent=1) + "\n")
    partial.replace(file)
