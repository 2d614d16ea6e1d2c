"""The scripts of the evidence, and archives to try them on."""

import dataclasses
import importlib
import sys

import pytest

from ..documented import ROOT

EVIDENCE = ROOT / "docs" / "evidence"


@pytest.fixture(scope="session")
def evidence():
    """Return a function that imports a script of the evidence.

    Tests share what the scripts have computed of the archives.
    """
    before = set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EVIDENCE)
        yield importlib.import_module
    for name in {file.stem for file in EVIDENCE.glob("*.py")} - before:
        sys.modules.pop(name, None)


@pytest.fixture
def whole(evidence):
    """Return the runs of a first look."""
    return some_of(evidence("archive").read("curve/1000-2"), lambda run: run.seed < 5)


@pytest.fixture
def archive(evidence, whole, tmp_path, monkeypatch):
    """Return the module with an empty folder of archives."""
    module = evidence("archive")
    monkeypatch.setattr(module, "SCORES", tmp_path)
    module.read.cache_clear()
    for name in ("curve", "tuned"):
        (tmp_path / name).mkdir()
    yield module
    module.read.cache_clear()


def some_of(whole, chosen):
    return dataclasses.replace(whole, runs=tuple(filter(chosen, whole.runs)))
