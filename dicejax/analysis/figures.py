"""How figures look, and how they become files."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from etils import epath

from dicejax.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette, told apart with every kind of colour vision, and by line
# style too. Mid tones: they stand on a white page and on a dark one.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#C79A00", "#7F7F7F")
STYLES = ("-", "--", "-.", (0, (1, 1.3)), (0, (6, 1.5, 1, 1.5, 1, 1.5)), (0, (8, 2)))
REFERENCE = {"color": "#8C8C8C", "linestyle": "-", "linewidth": 0.9}

# The same version of Matplotlib draws the same bytes each time.
_SETTINGS = {
    "svg.hashsalt": "dicejax",
    "svg.fonttype": "path",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.linewidth": 0.6,
}


@contextlib.contextmanager
def look(texts: Iterable[str] = (), settings: Mapping[str, Any] = {}) -> Iterator[None]:
    """Draw, and save, what is drawn inside as all figures look.

    Args:
      texts: what is written into the figure; characters that the default font lacks
        are taken from one that has them, or drawn as boxes.
      settings: more of Matplotlib's.
    """
    import matplotlib as mpl

    with mpl.rc_context(_SETTINGS | dict(settings) | _fonts(texts)), _any_glyph():
        yield


def require_matplotlib(flag: str) -> None:
    """See that figures can be drawn, before all else.

    Args:
      flag: what asks for them.

    Raises:
      InputError: Matplotlib is missing.
    """
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise InputError(f"{flag} needs Matplotlib: pip install matplotlib") from error


def make_folder(folder: str) -> epath.Path:
    """Make a folder if it does not exist.

    Raises:
      InputError: it cannot be made.
    """
    path = epath.Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be made a folder: {error}") from error
    return path


def write(folder: epath.Path, content: Mapping[str, bytes]) -> None:
    """Write files by name; what the folder has of these names is replaced.

    Raises:
      InputError: a file cannot be written.
    """
    try:
        for name, data in content.items():
            (folder / name).write_bytes(data)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written to: {error}") from error


def rendered(figure: Figure, kind: str, **options: Any) -> bytes:
    """Return a figure as the bytes of a file, "svg" or "png"."""
    defaults = {"dpi": 150} if kind == "png" else {"metadata": {"Date": None}}
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, **(defaults | options))
    return buffer.getvalue()


def panels(
    rows: int, columns: int, *, width: float = 7.6, height: float = 2.75
) -> tuple[Figure, list[Axes]]:
    """Return a figure and its axes, row by row; sizes in inches, height of a row."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height * rows + 0.45), layout="constrained")
    places = range(1, rows * columns + 1)
    return figure, [figure.add_subplot(rows, columns, place) for place in places]


def style(index: int) -> dict[str, Any]:
    """Return colour and line style of the line with this number."""
    return {
        "color": COLORS[index % len(COLORS)],
        "linestyle": STYLES[index % len(STYLES)],
    }


def legend(figure: Figure, *of: Axes, columns: int = 3) -> None:
    """Draw one legend of all lines, below the panels."""
    found = [axes.get_legend_handles_labels() for axes in of]
    figure.legend(
        [one for handles, _ in found for one in handles],
        [one for _, labels in found for one in labels],
        loc="outside lower center",
        ncols=columns,
        handlelength=3.2,
        columnspacing=1.4,
    )


def plain(text: str) -> str:
    """Matplotlib takes what stands between two dollar signs for a formula."""
    return text.replace("$", r"\$")


def _fonts(texts: Iterable[str]) -> dict[str, list[str]]:
    """The default font, and one that has the characters it lacks, if any does."""
    from matplotlib import font_manager

    fonts = font_manager.fontManager
    default = font_manager.findfont(font_manager.FontProperties())
    missing = _lacking(default, {c for text in texts for c in text if c.isprintable()})
    if not missing:
        return {}
    best, fewest = None, missing
    # Last Resort has every character, as a box.
    real = [entry for entry in fonts.ttflist if "Last Resort" not in entry.name]
    for entry in sorted(real, key=lambda e: (e.name, e.weight != 400)):
        lacking = _lacking(entry.fname, missing)
        if len(lacking) < len(fewest):
            best, fewest = entry.name, lacking
        if not fewest:
            break
    families = [font_manager.FontProperties(fname=default).get_name()]
    return {"font.family": families + ([best] if best else [])}


def _lacking(path: str, characters: set[str]) -> set[str]:
    from matplotlib.font_manager import get_font

    try:
        font = get_font(path)
    except (OSError, RuntimeError):  # a font file that Matplotlib cannot open
        return characters
    return {c for c in characters if not font.get_char_index(ord(c))}


@contextlib.contextmanager
def _any_glyph() -> Iterator[None]:
    """Draw a box for a character that no font has, without a warning for each."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        yield
