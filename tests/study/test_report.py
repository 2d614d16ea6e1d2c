"""The report repeats the statistics of all runs, and escapes text."""

import dataclasses
import itertools
import json
import re
import statistics

import numpy as np
import pytest
from etils import epath

from dicejax import config
from dicejax.metrics import score_counts
from dicejax.objectives import CrossEntropy, Dice, Focal, SelfAdjustingDice, Tversky
from dicejax.study import compare as comparison
from dicejax.study import figures, report
from dicejax.study.compare.jobs import outcome_of
from dicejax.study.compare.statistics import rows_of
from dicejax.study.report import pictures
from dicejax.study.report.facts import facts_by_loss
from dicejax.study.report.forest import strip
from dicejax.training.run_folder import Run

from . import made_runs
from .made_runs import EXPERIMENT, made
from .reading import read, tables

LOSSES = (CrossEntropy(), Dice(), Focal())
SCRIPT = "<script>alert(1)</script>"
HEADLINE = "Test F1 (%): difference to cross-entropy"


def written(jobs, folder):
    rows = comparison.evaluate_runs(jobs, str(folder))
    assert report.write(rows, str(folder)) == str(folder / "report.html")
    return rows


def texts(folder):
    return [(folder / name).read_text() for name in ("report.html", "report.md")]


def number(text):
    return float(text.replace("−", "-"))


def table(found, caption):
    (one,) = [rows for name, rows in found.items() if name.startswith(caption)]
    return {row[0]: dict(zip(one[0][1:], row[1:], strict=True)) for row in one[1:]}


def markdown_tables(text):
    blocks = re.findall(r"^(.+):\n\n((?:\|.*\n)+)", text, re.MULTILINE)
    cells = [
        (name, [line.strip("|").split(" | ") for line in block.splitlines()])
        for name, block in blocks
    ]
    return {
        name: [[cell.strip() for cell in row] for row in [rows[0], *rows[2:]]]
        for name, rows in cells
    }


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """A comparison of three losses, with its rows and page."""
    folder = tmp_path_factory.mktemp("told")
    rows = written(made(folder, LOSSES, 5, skill=(0.7, 0.7, 0.85)), folder)
    page = read((folder / "report.html").read_text())
    return folder, {row.loss: row for row in rows}, page


def test_the_table_repeats_the_rows(told):
    folder, rows, page = told
    _, text = texts(folder)
    for found in (tables(page), markdown_tables(text)):
        cells = table(found, HEADLINE)
        assert list(cells) == ["ce", "focal", "dice"]  # the best first
        for loss, row in rows.items():
            scores = [100 * one.score for one in row.outcomes]
            assert cells[loss]["seeds"] == "5"
            mean, spread = statistics.fmean(scores), statistics.stdev(scores)
            assert cells[loss]["F1"] == f"{mean:.2f} ± {spread:.2f}"
        focal = rows["focal"].against
        assert number(cells["focal"]["difference"]) == pytest.approx(
            100 * focal.crossed.mean, abs=0.005
        )
        low, high = map(number, cells["focal"]["95% CI"].split(" to "))
        assert (low, high) == pytest.approx(
            (100 * focal.crossed.low, 100 * focal.crossed.high), abs=0.005
        )
        assert cells["focal"]["seeds needed"] == focal.needed
        assert cells["dice"]["p (Holm)"] == f"{rows['dice'].against.test.p_value:.3f}"


def test_every_loss_has_its_verdict(told):
    folder, rows, page = told
    (claims,) = [u for u in page.all("ul") if u.attributes.get("class") == "claims"]
    said = [" ".join(item.text.split()) for item in claims.all("li")]
    assert [one.attributes["class"] for one in claims.all("li")] == [
        "better",
        "inconclusive",
    ]
    _, text = texts(folder)
    for loss, line in zip(("focal", "dice"), said, strict=True):
        sentence = rows[loss].against.verdict.sentence
        assert line.endswith(f"{loss}: {sentence}")
        assert f"**{loss}**: {sentence}" in text


def test_the_same_numbers_are_written_for_programs(told):
    folder, rows, _ = told
    content = json.loads((folder / "comparison.json").read_text())
    assert list(content["losses"]) == ["ce", "focal", "dice"]
    focal = content["losses"]["focal"]
    assert focal["against_baseline"]["p_value"] == rows["focal"].against.test.p_value
    assert focal["runs"][1]["folder"] == "focal/seed-1"
    by_seed = [
        Run(epath.Path(one.folder)).score_counts()["tags"][1:]
        for one in rows["focal"].outcomes
    ]
    found = content["curves"]["focal"]["scores"]["tags"]
    # By hand, from the highest threshold down: precision where a positive is met.
    of_all = np.sum(by_seed, axis=(0, 1))[:, ::-1].cumsum(axis=1)
    precision = of_all[1] / np.maximum(of_all.sum(axis=0), 1)
    gained = np.diff(of_all[1], prepend=0) / of_all[1, -1]
    assert found["average_precision"] == pytest.approx(float(gained @ precision))
    dev = content["curves"]["focal"]["dev"]
    assert dev["step"] == [50, 100]
    scores = [one.score for one in rows["focal"].outcomes]
    assert dev["mean"][1] == pytest.approx(np.mean(scores))
    assert dev["mean_plus_sd"][1] == pytest.approx(
        np.mean(scores) + np.std(scores, ddof=1)
    )


def test_pictures_are_drawn_from_the_numbers(told):
    _, rows, _ = told
    found = {m.loss: m for m in facts_by_loss(list(rows.values()))}
    by_seed = found["dice"].probabilities["tags"].by_seed
    counts = np.sum(list(by_seed.values()), axis=0)
    bins = [one for one in score_counts.reliability(counts).bins if one.count]
    (picture,) = pictures.calibration(list(found.values()))
    (axes,) = picture.panels[2].figure.axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == (
        "Predicted probability",
        "Frequency",
    )
    ours = axes.lines[-1]
    np.testing.assert_array_equal(ours.get_xdata(), [one.confidence for one in bins])
    np.testing.assert_array_equal(ours.get_ydata(), [one.accuracy for one in bins])
    runs = strip(list(rows.values()), "f1")
    (axes,) = runs.panels[0].figure.axes
    (focal,) = [line for line in axes.lines if line.get_gid() == "runs-of-1"]
    scores = [100 * one.score for one in rows["focal"].outcomes]
    assert sorted(focal.get_xdata()) == pytest.approx(sorted(scores))
    with figures.look():
        axes.set_xlabel("0.9999 < 1")
        svg = figures.element(runs.panels[0].figure, "k", "Runs", "All")
    assert ">0.9999 &lt; 1</text>" in svg and 'id="k-name">Runs</title>' in svg
    dev, _ = pictures.learning(list(found.values()), "f1")
    (axes,) = dev.panels[1].figure.axes
    assert axes.get_xlabel() == "Training step" and axes.get_ylabel() == "Dev F1 (%)"
    assert axes.lines[-1].get_ydata()[-1] == pytest.approx(np.mean(scores))


def test_curves_are_those_of_counted_elements():
    counts = made_runs.counts(np.random.default_rng(1), 0.8, 2)
    curve = score_counts.curve(counts)
    # Log-odds of at least 0 are the upper half of the bins.
    half = counts[..., score_counts.BINS // 2 :].sum(axis=(0, 2))
    assert curve.f1_at(0.5) == pytest.approx(
        2 * half[1] / (half.sum() + counts[:, 1].sum())
    )
    precision, recall = half[1] / half.sum(), half[1] / counts[:, 1].sum()
    pairs = np.stack(pictures.recall_precision(curve), axis=-1)
    distances = np.abs(pairs - (recall, precision)).sum(axis=1)
    assert distances.min() == pytest.approx(0, abs=1e-12)


def test_what_comes_from_data_is_text(tmp_path):
    folder = tmp_path / "<script>alert(1)"
    name = SCRIPT.replace("/", "")  # which a name has not
    jobs = made(
        folder,
        LOSSES,
        2,
        labels=("O", f"B-{SCRIPT}", "I-|*`_"),
        types=(SCRIPT, "|*`_"),
        experiment=dataclasses.replace(EXPERIMENT, name=name),
    )
    elsewhere = tmp_path / "elsewhere"
    rows = comparison.evaluate_runs(jobs, str(elsewhere))
    report.write(rows, str(elsewhere))
    html, text = texts(elsewhere)
    page = read(html)
    assert not page.all("script") and "<script" not in html
    assert f"{folder}/ce/seed-0" in page.text  # the folder's name, too
    classes = table(tables(page), "F1 (%) of each class")
    assert set(classes) == {SCRIPT, "|*`_"}
    assert page.all("h1")[0].text == f"{name}: loss comparison"
    assert any(name in one.text for one in page.all("title"))
    # Code blocks show everything verbatim.
    assert SCRIPT not in text and "<script" not in text
    outside = re.sub(r"<pre><code>[^<]*</code></pre>", "", text)
    assert "<" not in outside
    assert "| &lt;script&gt;alert(1)&lt;/script&gt; | 1,000 |" in outside
    assert r"| \|\*\`\_ | 250 |" in outside


def test_it_needs_nothing_from_elsewhere(told):
    folder, _, page = told
    html, _ = texts(folder)
    assert not page.all("script", "link", "img", "iframe", "object", "base")
    for element in page.all():
        assert "src" not in element.attributes
        assert element.attributes.get("href", "#").startswith("#")
        assert not any(name.startswith("on") for name in element.attributes)
    (style,) = page.all("style")
    assert "url(" not in style.text and "@import" not in style.text
    assert "prefers-color-scheme: dark" in style.text
    assert "http" not in html.replace("http://www.w3.org", "")
    # Every colour is set by the page, in light and in dark.
    drawn = [one for one in page.all("svg") if one.attributes.get("role") == "img"]
    styles = " ".join(
        str(inner.attributes.get("style")) for one in drawn for inner in one.all()
    )
    assert "var(--loss, #0b5cad)" in styles
    assert not re.search(r"(?<!, )#[0-9a-f]{6}", styles)


def test_it_can_be_read_aloud(told):
    _, _, page = told
    assert page.all("html")[0].attributes["lang"] == "en"
    levels = [int(one.name[1]) for one in page.all("h1", "h2", "h3", "h4")]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(b - a <= 1 for a, b in itertools.pairwise(levels))
    for one in page.all("table"):
        assert one.all("caption")[0].text
        assert {th.attributes["scope"] for th in one.all("th")} == {"col", "row"}
    ids = [one.attributes["id"] for one in page.all() if "id" in one.attributes]
    assert len(set(ids)) == len(ids)
    for one in page.all():
        for name in ("aria-labelledby", "href"):
            for known in (one.attributes.get(name) or "").split():
                assert known.lstrip("#") in ids
    drawn = [one for one in page.all("svg") if one.attributes.get("role") == "img"]
    # Forest, strip; 2 learning, 2 threshold, 1 calibration, 1 class figure of 3 losses.
    assert len(drawn) == 2 + 6 * 3
    for one in drawn:
        assert one.all("title")[0].text and one.all("desc")[0].text
    described = [one.all("desc")[0].text for one in drawn]
    wanted = r"AP \d\d\.\d\d vs\. \d\d\.\d\d; Precision by Recall"
    assert any(re.fullmatch(wanted, text) for text in described)
    assert page.text.count("Show data") == 1 + 6


def test_few_missing_and_diverged_runs_are_told_first(tmp_path):
    jobs = made(tmp_path, LOSSES, 3)
    dice_1, focal_2 = jobs[4], jobs[8]
    for job in (dice_1, focal_2):
        (epath.Path(job.folder) / "result.json").unlink()
    Run(epath.Path(dice_1.folder)).write_diverged("no finite loss")
    written(jobs, tmp_path)
    warnings = json.loads((tmp_path / "comparison.json").read_text())["warnings"]
    missing, diverged = warnings
    assert missing.startswith("1 of 9 runs are not finished")
    assert missing.endswith("focal seed 2.")
    assert diverged.startswith("1 of 9 runs diverged")
    assert diverged.endswith("dice seed 1.")
    page = read((tmp_path / "report.html").read_text())
    (box,) = [d for d in page.all("div") if d.attributes.get("class") == "warnings"]
    assert [one.text for one in box.all("li")] == warnings
    cells = table(tables(page), HEADLINE)
    assert (cells["dice"]["diverged"], cells["focal"]["missing"]) == ("1", "1")


def test_one_seed_is_told_and_enough_seeds_are_not(tmp_path, told):
    written(made(tmp_path, LOSSES, 1), tmp_path)
    one, _ = texts(tmp_path)
    assert "No verdict yet: 1 seed, and it takes 3. Next: the same command with" in one
    assert "no verdict from 1 seed" in one
    folder, _, _ = told
    assert json.loads((folder / "comparison.json").read_text())["warnings"] == []


def test_rows_without_runs_of_their_own_are_in_tables_alone(tmp_path):
    outcomes = [outcome_of(job) for job in made(tmp_path, LOSSES[:2], 2)]
    control = [
        dataclasses.replace(one, loss="ce + tuned threshold")
        for one in outcomes
        if one.loss == "ce"
    ]
    report.write(rows_of([*outcomes, *control], "ce"), str(tmp_path))
    html, _ = texts(tmp_path)
    found = tables(read(html))
    assert "ce + tuned threshold" in table(found, HEADLINE)
    assert "ce + tuned threshold" in table(found, "Test F1 (%) of each run")
    assert set(table(found, "Average precision (%)")) == {"ce", "dice"}
    assert set(table(found, "Dev F1 (%)")) == {"ce", "dice"}


def test_what_tuning_chose_is_told(tmp_path):
    rate = "optimizer.learning_rate"
    trials = [
        {"status": "finished", "dev": 0.5, "values": {rate: 0.001}},
        {"status": "diverged", "dev": None, "values": {rate: 0.5}},
        {"status": "finished", "dev": 0.625, "values": {rate: 0.002}},
    ]
    losses = {
        "focal": {"varied": {}, "trials": trials, "chosen": 2},
        "ce": {"varied": {}, "trials": trials[:2], "chosen": 0},
    }
    tuning = {"trials": 3, "primary_metric": "f1", "losses": losses}
    jobs = made(tmp_path, LOSSES, 2)
    rows = comparison.evaluate_runs(jobs, str(tmp_path), tuning)
    report.write(rows, str(tmp_path))
    html, text = texts(tmp_path)
    for found in (tables(read(html)), markdown_tables(text)):
        cells = table(found, "Chosen settings and their dev F1 (%)")
        assert list(cells) == ["focal", "ce"]  # the order of the file
        assert list(cells["ce"].values()) == [
            "learning_rate 0.001 (as given)",
            "50.00",
            "50.00",
            "1",
        ]
        assert list(cells["focal"].values()) == [
            "learning_rate 0.002",
            "62.50",
            "50.00",
            "1",
        ]


def test_the_file_to_run_it_again_is_the_same_comparison(tmp_path):
    losses = (*LOSSES, SelfAdjustingDice(alpha=0.5), Tversky(alpha=0.3))
    jobs = made(tmp_path, losses, 2)
    written(jobs, tmp_path)
    again = config.load(tmp_path / "rerun.py")
    made_again = comparison.jobs_of(again, again.compared, 2, str(tmp_path))
    by_run = {(job.loss, job.seed): job for job in jobs}
    assert {(job.loss, job.seed) for job in made_again} == set(by_run)
    for job in made_again:
        before = by_run[job.loss, job.seed]
        assert job.folder == before.folder
        same = dataclasses.replace(job.experiment, compared=EXPERIMENT.compared)
        assert same == before.experiment
    assert "dicejax compare rerun.py --seeds 2 --out FOLDER" in texts(tmp_path)[1]


def test_eleven_losses_of_ten_seeds_stay_small(tmp_path):
    losses = [Tversky(alpha=round(0.05 * n, 2)) for n in range(1, 11)]
    written(made(tmp_path, (CrossEntropy(), *losses), 10), tmp_path)
    assert (tmp_path / "report.html").stat().st_size < 1_000_000


def test_a_loss_that_always_diverges_stays_in_sight(tmp_path):
    jobs = made(tmp_path, LOSSES, 2)
    for job in jobs:
        if job.loss == "dice":
            (epath.Path(job.folder) / "result.json").unlink()
            Run(epath.Path(job.folder)).write_diverged("no finite loss")
    written(jobs, tmp_path)
    html, _ = texts(tmp_path)
    cells = table(tables(read(html)), HEADLINE)["dice"]
    assert (cells["seeds"], cells["F1"], cells["diverged"]) == ("0", "-", "2")
    assert Dice() in config.load(tmp_path / "rerun.py").compared


def luminance(colour):
    """WCAG 2.2, relative luminance of #rrggbb."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [
        p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts
    ]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))


def test_colours_stand_out_in_light_and_dark(told):
    _, _, page = told
    (style,) = page.all("style")
    blocks = re.findall(r":root \{(.*?)\}", style.text, re.DOTALL)
    assert len(blocks) == 3  # light, dark, print
    for block in blocks:
        colours = dict(re.findall(r"--(\w+): (#\w{6})", block))
        for back in ("page", "box"):
            for name in ("text", "soft", "loss", "base", "rule", "good", "bad"):
                pair = sorted((luminance(colours[name]), luminance(colours[back])))
                contrast = (pair[1] + 0.05) / (pair[0] + 0.05)
                assert contrast >= 4.5, (name, back, contrast)
