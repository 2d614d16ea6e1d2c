"""Pages of the site that are files of the repository: README, results, notebooks.

A page holds a marker such as `<!-- RESULTS.md -->`, `<!-- README.md until Limits -->`
or `<!-- benchmarks/README.md from verdicts.py -->` on a separate line; this extension
of Python-Markdown replaces it. Links lead to the pages of the site; files that are not
on the site are named without a link.
"""

import html
import json
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent
from typing import Any

from markdown import Markdown
from markdown.extensions import Extension
from markdown.preprocessors import Preprocessor

ROOT = Path(__file__).parents[1]
# Files of the repository, and the pages below docs/ that show them.
PAGES = {
    "README.md": "index.md",
    "RESULTS.md": "results.md",
    "benchmarks/README.md": "benchmarks.md",
    "experiments/README.md": "experiments.md",
    "notebooks/README.md": "notebooks/index.md",
    **{
        f"notebooks/{notebook.name}": f"notebooks/{notebook.stem}.md"
        for notebook in sorted((ROOT / "notebooks").glob("*.ipynb"))
    },
}

MARKER = re.compile(
    r"<!-- (?P<file>\S+\.(?:md|ipynb))"
    r"(?: from (?P<first>\S+))?(?: until (?P<heading>.+))? -->"
)
_FENCED = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
_REMOTE_IMAGE = re.compile(r"!\[([^\]]*)\]\(https?://[^)\s]+\)")
_LINK = re.compile(r"\[(?P<text>[^\[\]]*)\]\((?P<target>[^)\s]+)\)")
_PICTURE = re.compile(r'\bsrc="docs/')
# A picture follows the system's scheme; these follow the scheme of the page.
_BY_SYSTEM = re.compile(
    r'<picture>\s*<source [^>]*srcset="([^"]+)">\s*'
    r'<img ([^>]*)src="([^"]+)">\s*</picture>'
)
_BY_PAGE = r'<p><img \2src="\3#only-light"><img \2src="\1#only-dark"></p>'
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


class Files(Preprocessor):
    """Put files of the repository in place of their markers."""

    def run(self, lines: list[str]) -> list[str]:
        """Return the lines with the files that are named."""
        return [new for line in lines for new in self._replaced(line)]

    def _replaced(self, line: str) -> list[str]:
        match = MARKER.fullmatch(line)
        if not match:
            return [line]
        file = match["file"]
        text = (ROOT / file).read_text(encoding="utf-8")
        if file.endswith(".ipynb"):
            return "\n\n".join(self._cells(json.loads(text), file)).split("\n")
        if match["heading"]:
            text, ended, _ = text.partition(f"\n## {match['heading']}\n")
            assert ended, f"{file} has no heading {match['heading']!r}"
        if match["first"]:
            _, begun, text = text.partition(f"\n## {match['first']}\n")
            assert begun, f"{file} has no heading {match['first']!r}"
            text = begun + text
        return with_links(text, file).split("\n")

    def _cells(self, notebook: dict[str, Any], file: str) -> Iterator[str]:
        """Yield the cells of a notebook and their outputs."""
        heading = ""
        for cell in notebook["cells"]:
            source = "".join(cell["source"])
            if cell["cell_type"] == "markdown":
                heading = [heading, *_HEADING.findall(source)][-1]
                for name, picture in cell.get("attachments", {}).items():
                    shown = self._picture(picture["image/png"], f"Figure: {heading}")
                    source = re.sub(rf"!\[.*?\]\(attachment:{name}\)", shown, source)
                yield with_links(source, file)
            elif cell["cell_type"] == "code":
                code = f"```python\n{source}\n```"
                is_hidden = cell["metadata"].get("jupyter", {}).get("source_hidden")
                yield (
                    f'??? note "Set-up"\n{indent(code, " " * 4)}' if is_hidden else code
                )
                for output in cell["outputs"]:
                    yield self._output(output, f"Figure: {heading}")

    def _output(self, output: dict[str, Any], description: str) -> str:
        if output["output_type"] == "stream":
            return f"```text\n{''.join(output['text']).rstrip()}\n```"
        data = output["data"]
        if "image/png" in data:
            return self._picture(data["image/png"], description)
        return f"```text\n{''.join(data['text/plain']).rstrip()}\n```"

    def _picture(self, content: str, description: str) -> str:
        """Set a picture aside: it is no text in which to look for Markdown."""
        picture = "".join("".join(content).split())
        return self.md.htmlStash.store(
            f'<p><img alt="{html.escape(description)}" '
            f'src="data:image/png;base64,{picture}"></p>'
        )


def with_links(text: str, file: str) -> str:
    """Return the text of a file with links that are right on its page."""

    def linked(match: re.Match[str]) -> str:
        path, hash_, anchor = match["target"].partition("#")
        if not path or "://" in path:
            return match[0]
        named = posixpath.normpath(posixpath.join(posixpath.dirname(file), path))
        page = PAGES.get(named)
        if page is None and named.startswith("docs/"):
            page = named.removeprefix("docs/")
        if page is None:
            return f"{match['text']} (`{named}`)"
        folder = posixpath.dirname(PAGES[file]) or "."
        return f"[{match['text']}]({posixpath.relpath(page, folder)}{hash_}{anchor})"

    parts = _FENCED.split(text)
    for place in range(0, len(parts), 2):  # between the fences
        plain = _REMOTE_IMAGE.sub(r"\1", parts[place])  # nothing is fetched
        plain = _BY_SYSTEM.sub(_BY_PAGE, plain)
        parts[place] = _PICTURE.sub('src="', _LINK.sub(linked, plain))
    return "".join(parts)


class RepositoryExtension(Extension):
    """Register the preprocessor."""

    def extendMarkdown(self, md: Markdown) -> None:
        """Run before comments and fenced code are set aside."""
        md.preprocessors.register(Files(md), "repository", priority=29)


def makeExtension(**settings: Any) -> RepositoryExtension:
    """Return the extension, for Python-Markdown."""
    return RepositoryExtension(**settings)
