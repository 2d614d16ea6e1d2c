"""The progress bar, and its silence when quiet."""

import io

import pytest
from rich.console import Console

from dicejax.training.progress import TrainingProgress, progress_of

RECORD = {"loss": 0.25, "tokens_per_s": 12345.6, "skipped": 0, "wait_share": 0.0}


def status(score=0.5, **more):
    progress = TrainingProgress(Console(file=io.StringIO(), width=200))
    with progress:
        task = progress.begin("dice seed 0", 10)
        progress.show(task, 3, RECORD | more, score, "F1")
    (line,) = progress.tasks
    assert line.completed == 3
    return line.fields["status"]


BEGIN, SPEED = "loss 0.2500  dev F1 ", "  12,346 tokens/s"


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, f"{BEGIN} 50.00{SPEED}"),
        ({"score": None}, f"{BEGIN}   -  {SPEED}"),  # before the first
        ({"skipped": 3}, f"{BEGIN} 50.00{SPEED}  3 skipped"),
        ({"wait_share": 0.05}, f"{BEGIN} 50.00{SPEED}"),
        ({"wait_share": 0.0501}, f"{BEGIN} 50.00{SPEED}  waits 5 %"),
        (
            {"skipped": 1, "wait_share": 0.123},
            f"{BEGIN} 50.00{SPEED}  waits 12 %  1 skipped",
        ),
    ],
)
def test_the_status_has_loss_score_and_speed(more, expected):
    assert status(**more) == expected


def test_notes_are_printed_once_and_as_they_are():
    out, first = io.StringIO(), "[bold]a label[/bold] that is longer than the line"
    with TrainingProgress(Console(file=out, width=20)) as progress:
        for text in (first, "a damaged file", first):
            progress.note(text)
    lines = [line for line in out.getvalue().splitlines() if "note" in line]
    assert lines == [f"note: {first}", "note: a damaged file"]


@pytest.mark.parametrize("width", [80, 100, 112, 140])
def test_nothing_is_cut_beside_the_bar_but_the_name(width):
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=True, color_system=None)
    progress = TrainingProgress(console)
    task = progress.begin("dsc-alpha=1.0-smooth=0.01-squared=True seed 12", 1234)
    progress.show(task, 567, RECORD | {"wait_share": 0.25}, 0.5, "F1")
    console.print(progress.get_renderable())
    text = " ".join(out.getvalue().split())
    for part in ("dsc-al", "seed 12 ", " 567/1234 ", "F1 50.00", "tokens/s", "-:--:--"):
        assert part in text
    assert text.count("…") == 1 and "waits 25 %" in text


@pytest.mark.parametrize("quiet", [True, False])
def test_it_is_drawn_on_standard_error_unless_quiet(capfd, quiet):
    with TrainingProgress(quiet=quiet) as progress:
        task = progress.begin("dice seed 0", 10)
        progress.advance(task)
        progress.show(task, 3, RECORD, 0.5, "F1")
        progress.say("note: something")
        progress.remove_task(task)
    out, error = capfd.readouterr()
    assert out == "" and ("note: something" in error) == (not quiet)
    assert not (quiet and error)


@pytest.mark.parametrize(
    ("choice", "terminal", "visible"),
    [
        (None, True, True),
        (None, False, False),
        (True, False, True),
        (False, True, False),
    ],
)
def test_progress_is_shown_where_somebody_looks(
    capfd, monkeypatch, choice, terminal, visible
):
    monkeypatch.setattr("rich.console.Console.is_terminal", terminal)
    with progress_of(choice) as display:
        display.say("epoch 1")
        with progress_of(display) as same:
            assert same is display
        assert display.live.is_started == visible  # not stopped by the inner one
    assert ("epoch 1" in capfd.readouterr().err) == visible


def test_a_notebook_without_widgets_gets_lines(capsys, monkeypatch):
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with progress_of(None) as progress:
        progress.begin("ce seed 0", 10)
        progress.say("epoch 1")
    output = capsys.readouterr()
    assert output.out.startswith("epoch 1\n") and output.err == ""
