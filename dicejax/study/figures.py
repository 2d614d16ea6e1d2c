"""Style of all figures, and their rendering as files or as elements of a page."""

from __future__ import annotations

import contextlib
import html
import io
import itertools
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from dicejax.errors import visible

if TYPE_CHECKING:  # Matplotlib is slow to import, so it is when something is drawn
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette, distinct with every kind of colour vision, and by line
# style too. Mid tones, for light and dark pages.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#C79A00", "#7F7F7F")
STYLES = ("-", "--", "-.", (0, (1, 1.3)), (0, (6, 1.5, 1, 1.5, 1, 1.5)), (0, (8, 2)))
REFERENCE: dict[str, Any] = {"color": "#8C8C8C", "linestyle": "-", "linewidth": 0.9}

# Colours that a page replaces by its own, in light and dark, through CSS variables.
TEXT, SOFT, RIM, PAGE = "#1b1b1f", "#55555f", "#d5d5dc", "#fefefe"
LOSS, BASE, RULE = "#0b5cad", "#6a6a74", "#b14a00"
_VARIABLES = dict(
    text=TEXT, soft=SOFT, rim=RIM, page=PAGE, loss=LOSS, base=BASE, rule=RULE
)

_UNSEEN = re.compile(r'(?<=\d\.\d\d)\d+| id="[\w.]+_\d+"')
"""Further digits in a tag, and ids that nothing refers to."""

# The same version of Matplotlib draws the same bytes each time.
_SETTINGS: dict[Any, Any] = {
    "svg.hashsalt": "dicejax",
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": SOFT,
    "axes.labelcolor": TEXT,
    "axes.formatter.use_mathtext": False,
    "text.color": TEXT,
    "xtick.color": TEXT,
    "ytick.color": TEXT,
    "grid.color": RIM,
    "grid.linewidth": 0.6,
}
# Of figures that are files, with a title over each panel.
TITLED = {
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.axisbelow": True,
    "grid.alpha": 0.3,
}


@contextlib.contextmanager
def look(texts: Iterable[str] = (), settings: Mapping[Any, Any] = {}) -> Iterator[None]:
    """Draw and save figures in the package's style inside this context.

    Characters of the texts that the default font lacks are taken from the font that has
    most of them, or drawn as boxes.
    """
    import matplotlib as mpl
    from matplotlib.font_manager import FontProperties, findfont, fontManager, get_font

    def lacking(font: Any) -> tuple[int, str, bool]:
        try:
            count = len(missing.difference(get_font(font.fname).get_charmap()))
        except (OSError, RuntimeError):  # a font file that Matplotlib cannot open
            count = len(missing)
        return count, font.name, font.weight != 400

    default = findfont(FontProperties())
    missing = {ord(letter) for letter in "".join(texts) if letter.isprintable()}
    missing -= get_font(default).get_charmap().keys()
    fonts: dict[Any, Any] = {}
    if missing:
        # Last Resort has every character, as a box.
        others = [x for x in fontManager.ttflist if "Last Resort" not in x.name]
        family = FontProperties(fname=default).get_name()
        fonts["font.family"] = [family, min(others, key=lacking).name]
    style = mpl.rc_context(_SETTINGS | dict(settings) | fonts)
    with style, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        yield


def rendered(figure: Figure, kind: str, **options: Any) -> bytes:
    """Return a figure as the bytes of a file, "svg" or "png"."""
    default = ("dpi", 150) if kind == "png" else ("metadata", {"Date": None})
    options.setdefault(*default)
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, **options)
    figure.set_layout_engine("none")  # half of the time: the places stay for another
    drawn = buffer.getvalue()
    if kind == "svg":  # in which control characters are not allowed
        return visible(drawn.decode(), keep="\n\t").encode()
    return drawn


def files(drawings: Iterable[tuple[str, Figure]]) -> dict[str, bytes]:
    """Return figures with their names as files, SVG and PNG; call it within `look`."""
    return {
        f"{name}.{kind}": rendered(figure, kind)
        for name, figure in drawings
        for kind in ("svg", "png")
    }


def element(figure: Figure, key: str, title: str, description: str) -> str:
    """Return a figure as an SVG element that takes the colours of its page.

    The key, unique on the page, begins its ids. Call it within `look`.
    """
    import matplotlib as mpl

    with mpl.rc_context({"font.sans-serif": ["DejaVu Sans"]}):  # else a list of ten
        drawn = rendered(figure, "svg", transparent=True).decode()
    # Before it are metadata, and a style sheet that would be the whole page's.
    _, _, body = drawn.partition("</style>")
    body = " ".join(body.split()).replace("> <", "><")
    body = re.sub(r"<[^>]+>", lambda tag: _UNSEEN.sub("", tag[0]), body)
    for name, color in _VARIABLES.items():
        body = body.replace(color, f"var(--{name}, {color})")
    for old in (' id="', 'href="#', "url(#"):
        body = body.replace(old, f"{old}{key}-")
    width, height = (72 * size for size in figure.get_size_inches())
    return (
        f'<svg role="img" aria-labelledby="{key}-name {key}-about" '
        f'viewBox="0 0 {width:g} {height:g}" style="max-width: {1.4 * width:g}px">'
        f'<title id="{key}-name">{html.escape(visible(title))}</title>'
        f'<desc id="{key}-about">{html.escape(visible(description))}</desc>'
        f"<defs>{body}"
    )


def panels(
    rows: int, columns: int, *, width: float = 7.6, height: float = 2.75
) -> tuple[Figure, list[Axes]]:
    """Return a figure and its axes, row by row; sizes in inches, height of a row."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height * rows + 0.45), layout="constrained")
    return figure, list(figure.subplots(rows, columns, squeeze=False).flat)


def style(index: int) -> dict[str, Any]:
    """Return colour and line style of the line with this number."""
    color, line = COLORS[index % len(COLORS)], STYLES[index % len(STYLES)]
    return {"color": color, "linestyle": line}


def legend(figure: Figure, *panels: Axes, columns: int = 3) -> None:
    """Draw one legend of all lines, below the panels."""
    entries = [axes.get_legend_handles_labels() for axes in panels]
    figure.legend(
        *(list(itertools.chain(*parts)) for parts in zip(*entries, strict=True)),
        loc="outside lower center",
        ncols=columns,
        handlelength=3.2,
        columnspacing=1.4,
    )


def plain(text: str) -> str:
    """Escape dollar signs, between which Matplotlib reads a formula."""
    return text.replace("$", r"\$")
