"""`dicejax plot` and its figures."""

import dataclasses
import json
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from dicejax.cli import run
from dicejax.objectives import CrossEntropy, SoftF1, WeightedSum
from dicejax.study import figures
from dicejax.study.compare.jobs import ScoredRun
from dicejax.study.compare.results import with_gradients
from dicejax.study.compare.statistics import Row
from dicejax.study.gradients import agreement, history, plot
from dicejax.study.report import sections
from dicejax.training.run_folder import Run

from ..small_project import fails

TRAIN = ["train", "mine.py", "--training.epochs", "3", "--analysis.every", "1"]
OVER_TIME = ["density", "norms", "shares", "agreement", "alarms"]


def written(folder):
    return {path.name for path in folder.iterdir()}


@pytest.mark.slow
def test_a_run_is_drawn_and_its_losses_are_compared(project, capsys):
    assert run([*TRAIN, "--out", "run"]) == 0
    capsys.readouterr()
    argv = ["plot", "run", "--losses", "ce", "soft_f1:smooth=0", "--batches", "3"]
    assert run([*argv, "--checkpoint", "last"]) == 0
    output = capsys.readouterr().out
    for part in ("soft_f1-smooth=0", "(micro)", "3 training batches"):
        assert part in output
    assert "15 files in run/figures" in output
    folder, names = project / "run/figures", [*OVER_TIME, "loss", "losses"]
    files = {f"{x}.{kind}" for x in names for kind in ("svg", "png")}
    assert written(folder) == files | {"losses.json"}
    for name in names:
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        svg = ElementTree.fromstring((folder / f"{name}.svg").read_bytes())
        assert svg.tag.endswith("svg")

    content = json.loads((folder / "losses.json").read_text())
    assert content["batches"] == 3
    assert "ce" in {result["loss"] for result in content["found"]}
    assert all(len(result["logits"]) == 3 for result in content["found"])

    _figures_for_a_page()
    _figures_of_a_comparison()
    _measured_numbers(project)
    _agreement_of_known_losses()
    _bad_input(project, capsys)


def _figures_for_a_page():
    drawn = plot.figures_of_run("run")
    assert list(drawn) == OVER_TIME
    for name, figure in drawn.items():
        with figures.look():
            svg = figures.element(figure, name, "a < b", "about")
            if name == "density":
                again = plot.figures_of_run("run")[name]
                assert svg == figures.element(again, name, "a < b", "about")
        assert svg.startswith("<svg") and f'id="{name}-name">a &lt; b</title>' in svg
        assert re.search(rf"url\(#{name}-", svg)


def _figures_of_a_comparison():
    """Each loss has the figures of its first measured run; a baseline has none."""
    result = Run.at("run").result()
    runs = [ScoredRun("ce", seed, "run", "finished", result) for seed in (1, 2)]
    runs = with_gradients(runs)
    missing = ScoredRun("ce", 0, "none", "missing")
    moved = result | {"control": {}}
    control = ScoredRun("ce + x", 1, "run", "finished", moved)
    assert with_gradients([control]) == [control]
    assert [len(run.gradients) for run in runs] == [1, 0]
    rows = [Row("ce", (missing, *runs), None)]
    rows += [Row("ce + x", (control,), None)]
    titles = [picture.title for picture in sections.gradients(rows)]
    assert titles == [f"ce, seed 1: {name}" for name in OVER_TIME]


def _measured_numbers(project):
    """The history equals the file."""
    (tags,) = history.read(Run.at("run"))
    text = (project / "run/analysis.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in text]
    assert tags.groups.names[0] == "O" and tags.groups.has_negative
    assert tags.steps.tolist() == [record["step"] for record in records]
    norms = np.array([record["outputs"]["tags"]["gradient_norm"] for record in records])
    np.testing.assert_allclose(tags.share_of_gradient(), norms.sum(0) / norms.sum())
    assert tags.sums["norms"].shape == (len(records), len(tags.groups.names), 2, 32)
    assert list(tags.cosine) == ["micro", "macro"]


def _agreement_of_known_losses():
    """Soft F1 of a single batch has cosine 1 with itself, and -1 negated."""
    primary_metric = SoftF1(average="micro", exclude_class=("0",), smooth=0.0)
    against = WeightedSum(parts=(primary_metric,), weights=(-1.0,))
    losses = {"itself": primary_metric, "against": against, "ce": CrossEntropy()}
    single = agreement.agreements("run", losses, batches=1, warn=lambda text: None)
    by_name = {(row["loss"], row["average"]): row for row in single["found"]}
    for loss, expected in (("itself", 1.0), ("against", -1.0)):
        x = by_name[loss, "micro"]
        cosines = [*x["logits"], *x["heads"], x["heads_of_all"]]
        assert cosines == pytest.approx([expected] * 3, abs=1e-4)
    assert -0.99 < by_name["ce", "micro"]["logits"][0] < 0.99
    assert 0 < by_name["ce", "micro"]["share_of_positives"] < 1
    # With counts of more batches the F1 of a single one has another direction.
    only = {"itself": primary_metric}
    more = agreement.agreements("run", only, batches=3, warn=lambda text: None)
    assert 0.5 < min(more["found"][0]["logits"]) < 1 - 1e-6


def _bad_input(project, capsys):
    fails(capsys, ["plot", "nowhere"], "nowhere: holds no run")
    fails(capsys, ["plot", "run", "--losses", "dicee"], "did you mean dice")
    fails(capsys, ["plot", "run", "--batches", "0"], "--batches is 0; want at least 1")
    fails(capsys, ["plot", "run", "--out", "mine.py"], "mine.py: cannot be written to")
    file = project / "run/analysis.jsonl"
    content = file.read_bytes()
    file.write_bytes(content[:-1] + b" \n")
    fails(capsys, ["plot", "run"], "analysis.jsonl: has changed since it was written")
    (project / "run/result.json").unlink()  # as while it trains
    file.write_bytes(content + b'{"step": 99, "outp')  # torn: the rest is drawn
    assert len(history.read(Run.at("run"))[0].steps) == content.count(b"\n")
    file.write_bytes(b'{"step": 1}\n' + content)
    fails(capsys, ["plot", "run"], "analysis.jsonl: damaged")
    file.write_bytes(b"")
    fails(capsys, ["plot", "run"], "holds nothing")
    file.unlink()
    fails(capsys, ["plot", "run"], "train with --analysis.every 50", "--losses")


def test_names_of_any_script_can_be_drawn(tmp_path):
    """Also draws a history of one step."""
    names = ("O", "$x$", "体育", "Ω_{2}")
    made = _history(names, steps=1)
    with plot.look([made]):
        content = figures.files(plot.draw((made,)))
    assert len(content) == 2 * len(OVER_TIME)
    several = [dataclasses.replace(made, output=name) for name in ("start", "end")]
    with plot.look(several):
        files = [name for name, _ in plot.draw(tuple(several))]
    assert files[0] == "start-density" and files[-1] == "end-alarms"


def _history(names, steps):
    rng, groups = np.random.default_rng(0), len(names)
    shapes = {"hardness": (20,), "hardness_norm": (20,), "norms": (2, 32)}
    sums = {
        name: rng.random((steps, groups, *shapes.get(name, ())))
        for name in history.SUMS
    }
    series = {"micro": rng.random(steps), "macro": rng.random(steps)}
    return history.History(
        output="tags",
        groups=history.Groups(names, has_negative=True, multi_label=False),
        steps=np.arange(steps),
        sums=sums,
        kinds={},
        **dict.fromkeys(("soft_f1", "cosine", "cosine_heads"), series),
        alarms=[],
    )
