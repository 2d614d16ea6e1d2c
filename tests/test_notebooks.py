"""The notebooks run at small sizes, and are committed with their outputs."""

import json
import re

import pytest
from IPython.core.inputtransformer2 import TransformerManager
from nbclient.exceptions import CellExecutionError

from .documented import ROOT, script
from .kinds import exhaustive_but

FOLDER = ROOT / "notebooks"
# The others use code tested elsewhere; they run with --exhaustive.
EXECUTED = {"1_losses_and_gradients"}
MOST_BYTES = 400_000
# Temporary folders, homes, and folders of working copies or environments.
OF_A_MACHINE = re.compile(
    r"/(?:tmp|home|root|work|Users|var|opt|usr|content|site-packages)/|[A-Z]:\\\\"
)
A_TIME = re.compile(r"(?<!words )\b\d+:\d\d\b|tokens/s|\b20\d\d-\d\d-\d\d\b")

execute = script(FOLDER / "execute.py")
NAMES = [path.stem for path in execute.NOTEBOOKS]

every = pytest.mark.parametrize("name", NAMES)


def committed(name):
    return execute.load(FOLDER / f"{name}.ipynb")


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def text_of(output):
    """Return the visible text of an output; pictures are in base64 or SVG."""
    data = output.get("data", {})
    texts = [data[kind] for kind in data if kind.startswith("text/")]
    picture = re.sub(r' d="[^"]*"', "", data.get("image/svg+xml", ""))
    return "\n".join([output.get("text", ""), *texts, picture])


def add_checks(notebook, name):
    """Put the assertions of a notebook behind the cells that they name."""
    text = (FOLDER / "checks" / f"{name}.py").read_text()
    parts = re.split(r"^# %% (\S+)$", text, flags=re.MULTILINE)[1:]
    cells = {cell.id: cell for cell in code_cells(notebook)}
    for cell_id, code in zip(parts[::2], parts[1::2], strict=True):
        cells[cell_id].source += f"\n{code}"


@pytest.mark.slow
@pytest.mark.parametrize("name", exhaustive_but(EXECUTED, NAMES))
def test_a_notebook_holds_what_it_says(name, tmp_path):
    if name == "6_to_pytorch":
        pytest.importorskip("torch", reason="parity: pip install -e '.[parity]'")
    notebook = committed(name)
    execute.make_small(notebook)
    add_checks(notebook, name)
    execute.execute(notebook, str(tmp_path))  # raises where a cell does
    assert all(cell.execution_count for cell in code_cells(notebook))


def test_all_are_in_their_table():
    table = (FOLDER / "README.md").read_text()
    assert len(NAMES) > 5 and all(f"]({name}.ipynb) |" in table for name in NAMES)


@every
def test_a_committed_file_has_its_outputs_and_no_more(name):
    path = FOLDER / f"{name}.ipynb"
    notebook, content = committed(name), json.loads(path.read_text())
    assert set(content) == {"cells", "metadata", "nbformat", "nbformat_minor"}
    assert set(content["metadata"]) == {"kernelspec", "language_info"}
    assert notebook.metadata.kernelspec.name == "python3"
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    assert len({cell.id for cell in notebook.cells}) == len(notebook.cells)
    assert all("execution" not in cell.metadata for cell in notebook.cells)
    cells = code_cells(notebook)
    counts = [cell.execution_count for cell in cells]
    assert counts == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell.outputs]
    assert len(outputs) > 4 and path.stat().st_size < MOST_BYTES
    for output in outputs:
        assert output.output_type != "error"
        # Warnings of libraries depend on the machine and its versions.
        assert output.get("name") != "stderr", output.text
        text = text_of(output)
        assert not OF_A_MACHINE.search(text) and not A_TIME.search(text), text


@every
def test_statements_are_asserted(name):
    notebook = committed(name)
    texts = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    headings = sum(text.startswith("## ") for text in texts)
    assert not any("assert " in cell.source for cell in code_cells(notebook))
    add_checks(notebook, name)
    code = "\n".join(cell.source for cell in code_cells(notebook))
    assert 3 <= headings <= len(re.findall(r"^\s*assert ", code, re.MULTILINE))


@every
def test_begins_with_a_question_a_picture_and_little_set_up(name):
    notebook = committed(name)
    title, install = notebook.cells[:2]
    assert re.match(r"# .*\n\n(\[!.*\n\n)?\*\*.*\?\*\*\n\n!\[.*\]\(att", title.source)
    picture = execute.picture_of(notebook)
    first = title["attachments"]["picture.png"]["image/png"]
    assert first == picture if picture else name == "5_own_data_and_loss"
    texts = [cell.source for cell in notebook.cells]
    first = next(i for i, text in enumerate(texts) if text.startswith("## "))
    assert sum(len(text.splitlines()) for text in texts[1:first]) <= 40
    transformed = TransformerManager().transform_cell(install.source)
    run_cell = compile(transformed, "install", "exec")
    calls = []

    class Shell:
        def run_line_magic(self, *words):
            calls.append(words)

    exec(run_cell, {"get_ipython": Shell})  # no address is named: nothing happens
    assert calls == []
    filled = transformed.replace('DICEJAX = ""', 'DICEJAX = "./copy"')
    exec(filled, {"get_ipython": Shell})
    ((magic, line),) = calls
    assert magic == "pip" and line.startswith("install ") and "$DICEJAX" in line


@every
def test_small_settings_are_other_values_of_the_same_names(name):
    notebook = committed(name)
    values = []
    for is_small in (False, True):
        source = execute.settings_of(notebook).source
        assert ("# small:" in source) != is_small
        values.append({})
        exec(source, values[-1])
        execute.make_small(notebook)
    before, after = values
    assert before.keys() == after.keys()
    assert any(key.isupper() and before[key] != after[key] for key in before)


@every
def test_a_badge_opens_the_notebook_where_the_project_has_an_address(name, monkeypatch):
    notebook, path = committed(name), FOLDER / f"{name}.ipynb"
    before = notebook.cells[0].source
    assert ("Open in Colab" in before) == bool(execute.project_url())
    monkeypatch.setattr(execute, "project_url", lambda: "https://github.com/a/b.git")
    execute.set_badge(notebook, path)
    line = notebook.cells[0].source.splitlines()[2]
    colab = "https://colab.research.google.com"
    assert line.endswith(f"]({colab}/github/a/b/blob/main/notebooks/{name}.ipynb)")
    monkeypatch.setattr(execute, "project_url", lambda: "")
    execute.set_badge(notebook, path)
    assert "Colab" not in notebook.cells[0].source.partition("**")[0]


def test_a_statement_that_does_not_hold_fails(tmp_path):
    notebook = committed("2_imbalance")
    notebook.cells = notebook.cells[:3]
    notebook.cells[-1].source = "assert 1 + 1 == 3, 'no'"
    with pytest.raises(CellExecutionError, match="no"):
        execute.execute(notebook, str(tmp_path))
