"""A small corpus for counting."""

import pytest

TRAIN = """Anna B-PER
lives O
in O
New B-LOC
York I-LOC

Bob B-PER
sleeps O

Nothing O
happens O
here O

"""
DEV = """Anna B-PER
likes O
ACME B-ORG

Mary B-PER
"""


@pytest.fixture
def conll(tmp_path):
    """Return a folder with three files of words and tags."""
    folder = tmp_path / "data"
    folder.mkdir()
    for name, text in {"train": TRAIN * 8, "dev": DEV, "test": TRAIN}.items():
        (folder / f"{name}.txt").write_text(text)
    return folder
