"""Executes the notebooks in place, so that they are committed with their outputs.

    python notebooks/execute.py [--small | --badges] [NOTEBOOK ...]

`--small` takes the values that the settings name behind `# small:`, and writes nothing.
`--badges` executes nothing: it writes the links to Colab for the `url` in setup.cfg.
"""

from __future__ import annotations

import argparse
import configparser
import os
import re
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

HERE = Path(__file__).parent
NOTEBOOKS = tuple(sorted(HERE.glob("*.ipynb")))
_COLAB = "https://colab.research.google.com"
_BADGE = re.compile(r"^\[!\[Open in Colab\].*\n\n", re.MULTILINE)
_SMALL = re.compile(r"^(\w+ = ).*?  # small: (.+)$", re.MULTILINE)


def load(path: Path) -> NotebookNode:
    """Read a notebook, and see that it is one."""
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    return notebook


def settings_of(notebook: NotebookNode) -> NotebookNode:
    """Return the cell with the settings.

    Raises:
      ValueError: there is none, or more than one.
    """
    (cell,) = [c for c in notebook.cells if "settings" in c.metadata.get("tags", ())]
    return cell


def make_small(notebook: NotebookNode) -> None:
    """Set the settings to what a quick look takes."""
    cell = settings_of(notebook)
    cell.source = _SMALL.sub(r"\1\2", cell.source)


def project_url() -> str:
    """Return the address of the project in setup.cfg, or an empty string."""
    parser = configparser.ConfigParser()
    parser.read(HERE.parent / "setup.cfg", encoding="utf-8")
    return parser["metadata"].get("url", "")


def badge(path: Path, url: str) -> str:
    """Return the line that opens a notebook in Colab, empty without an address.

    Args:
      path: the notebook.
      url: the project on GitHub.
    """
    if not url.startswith("https://github.com/"):
        return ""
    repository = url.removeprefix("https://github.com/").removesuffix(".git")
    target = f"{_COLAB}/github/{repository.strip('/')}/blob/main/notebooks/{path.name}"
    return f"[![Open in Colab]({_COLAB}/assets/colab-badge.svg)]({target})"


def set_badge(notebook: NotebookNode, path: Path) -> None:
    """Write the link to Colab below the title, where the project has an address."""
    title = notebook.cells[0]
    head, _, rest = _BADGE.sub("", title.source).partition("\n\n")
    line = badge(path, project_url())
    title.source = "\n\n".join(filter(None, (head, line, rest)))


def picture_of(notebook: NotebookNode) -> str | None:
    """Return the picture that the cell tagged `picture` shows, if there is one."""
    for cell in notebook.cells:
        if "picture" in cell.metadata.get("tags", ()):
            return next(
                output.data["image/png"]
                for output in cell.outputs
                if "image/png" in output.get("data", ())
            )
    return None


def set_picture(notebook: NotebookNode) -> None:
    """Show the notebook's own picture below its question."""
    if (picture := picture_of(notebook)) is not None:
        notebook.cells[0]["attachments"] = {"picture.png": {"image/png": picture}}


def execute(notebook: NotebookNode, folder: str) -> None:
    """Run all cells and keep what they print and show.

    Args:
      notebook: gets the outputs.
      folder: where the cells run, and have their temporary files.

    Raises:
      CellExecutionError: a cell failed.
    """
    client = NotebookClient(
        notebook,
        timeout=1800,
        kernel_name="python3",
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": folder}},
    )
    client.execute(env=os.environ | {"TMPDIR": folder})


def clean(notebook: NotebookNode) -> None:
    """Take away what belongs to one machine: progress bars, warnings, versions."""
    notebook.metadata.language_info = {"name": "python"}
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [o for o in cell.outputs if o.get("name") != "stderr"]


def main() -> None:
    """Execute the notebooks that the command line names, or all."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--small", action="store_true", help="quick, writes nothing")
    parser.add_argument("--badges", action="store_true", help="executes nothing")
    parser.add_argument("notebooks", nargs="*", type=Path, default=NOTEBOOKS)
    asked = parser.parse_args()
    for path in asked.notebooks:
        notebook = load(path)
        if asked.small:
            make_small(notebook)
        if not asked.badges:
            with tempfile.TemporaryDirectory() as folder:
                execute(notebook, folder)
        if not asked.small:
            clean(notebook)
            set_badge(notebook, path)
            set_picture(notebook)
            path.write_text(nbformat.writes(notebook) + "\n", encoding="utf-8")
        print(path)


if __name__ == "__main__":
    main()
