"""Draws what `docs/analysis.md` shows, from runs made with the page's own commands.

    python docs/figures/analysis.py [--folder FOLDER] [--runs FOLDER] [--SETTING VALUE]

Two trainings of the quickstart experiment with names that the types share, a larger
encoder and more epochs, some minutes each; runs that are there already are used again.
The same version of Matplotlib draws the same bytes of them.
"""

import argparse
from pathlib import Path

from losses import compact

from dicejax.cli import run
from dicejax.study import figures
from dicejax.study.gradients import plot
from dicejax.study.gradients.curves import draw_figure_one

EXPERIMENT = str(Path(__file__).parents[2] / "experiments" / "quickstart.py")
RUNS = {
    "ce": ["--data.own_names", "0", "--loss", "ce"],
    "dsc": ["--data.own_names", "0", "--loss", "dsc", "--objective.smooth", "0.01"],
}
SIZES = [
    "--data.train=4000",
    "--encoder.hidden_size=128",
    "--encoder.intermediate_size=512",
    "--encoder.num_hidden_layers=2",
    "--optimizer.learning_rate=1e-3",
    "--training.epochs=8",
]
COMPARED = ["ce", "focal", "dice:smooth=0.01", "dsc:smooth=0.01", "soft_f1:smooth=0.01"]
SHOWN = {"ce": ("density", "shares"), "dsc": ("density", "alarms", "agreement")}


def train(runs: Path, more: list[str]) -> None:
    """Trains the runs of the page, each line of which is one of its commands."""
    for name, words in RUNS.items():
        out = ["--out", str(runs / name), "--analysis.every", "10"]
        done(["train", EXPERIMENT, *words, *out, *SIZES, *more])


def done(argv: list[str]) -> None:
    """Runs a command."""
    status = run(argv)
    if status:
        raise SystemExit(status)


def draw(folder: Path, runs: Path) -> None:
    """Writes the figures of the page into a folder."""
    with figures.look(settings=plot.SETTINGS):
        figure, (axes,) = figures.panels(1, 1, width=4.6)
        draw_figure_one(axes)
        axes.legend()
        (folder / "figure_1.svg").write_bytes(compact(figures.rendered(figure, "svg")))
    for name, figure_names in SHOWN.items():
        drawn = plot.figures_of_run(str(runs / name))
        with figures.look(settings=plot.SETTINGS):
            for figure_name in figure_names:
                file = folder / f"{name}_{figure_name}.svg"
                file.write_bytes(compact(figures.rendered(drawn[figure_name], "svg")))
    drawn = runs / "drawn"
    done(["plot", str(runs / "ce"), "--out", str(drawn), "--losses", *COMPARED])
    (folder / "losses.svg").write_bytes(compact((drawn / "losses.svg").read_bytes()))


def main() -> None:
    """Reads the command line, trains and draws."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = Path(__file__).parent / "analysis"
    parser.add_argument("--folder", type=Path, default=default)
    parser.add_argument("--runs", type=Path, default=Path("runs/analysis"))
    arguments, more = parser.parse_known_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    train(arguments.runs, more)
    draw(arguments.folder, arguments.runs)


if __name__ == "__main__":
    main()
