"""The report repeats the statistics of all runs, and escapes text."""

import dataclasses
import itertools
import re
import statistics
import types
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest
from etils import epath

from dicejax import config
from dicejax.metrics import score_counts
from dicejax.objectives import (
    CrossEntropy,
    Dice,
    Focal,
    SelfAdjustingDice,
    Tversky,
    WeightedCrossEntropy,
)
from dicejax.study import compare as comparison
from dicejax.study import figures, report
from dicejax.study.compare.jobs import scored
from dicejax.study.compare.record import Comparison
from dicejax.study.compare.statistics import rows_of
from dicejax.study.report import pictures
from dicejax.study.report.measured import counts_of
from dicejax.study.sentences import sentences

from ..visible import contrast
from .made_runs import EXPERIMENT, made, record_of, run_of

LOSSES = (CrossEntropy(), Dice(), Focal())
SCRIPT = "<script>alert(1)</script>"
CELLS = sentences("cells")
HEADLINE = "Test F1 (%): difference from cross-entropy"
VOID = {"meta", "br", "wbr", "link", "img", "input", "hr"}


class Page(HTMLParser):
    """Builds the tree of a page, in which every element is closed by its name."""

    def __init__(self, html):
        super().__init__()
        self.builder, self.open = ElementTree.TreeBuilder(), []
        self.feed(html)
        self.close()
        assert not self.open
        self.root = self.builder.close()

    def handle_starttag(self, tag, attrs):
        assert len(dict(attrs)) == len(attrs), f"<{tag}> has an attribute twice"
        self.builder.start(tag, dict(attrs))
        self.open.append(tag)
        if tag in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open[-1] == tag, f"<{self.open[-1]}> ends as <{tag}>"
        self.builder.end(self.open.pop())

    def handle_data(self, data):
        self.builder.data(data)


def content(element):
    return "".join(element.itertext())


def elements(page, *names):
    return [element for element in page.iter() if element.tag in names]


def tables(page):
    """Return the cells of all tables by caption, headings first."""
    return {
        content(table.find("caption")): [
            [content(cell) for cell in elements(row, "th", "td")]
            for row in table.iter("tr")
        ]
        for table in page.iter("table")
    }


def written(jobs, folder, tuning=None):
    """Write a report, and return its rows, page and Markdown."""
    result = report.write(comparison.evaluate_runs(jobs, str(folder), tuning))
    assert result.report == str(folder / "report.html")
    html, text = ((folder / f"report.{kind}").read_text() for kind in ("html", "md"))
    return {row.loss: row for row in result.rows}, html, text


def number(text):
    return float(text.replace("−", "-"))


def table(by_caption, caption):
    (rows,) = [rows for name, rows in by_caption.items() if name.startswith(caption)]
    return {row[0]: dict(zip(rows[0][1:], row[1:], strict=True)) for row in rows[1:]}


def markdown_tables(text):
    by_caption = {}
    for name, block in re.findall(r"^(.+):\n\n((?:\|.*\n)+)", text, re.MULTILINE):
        rows = [line.strip("|").split(" | ") for line in block.splitlines()]
        by_caption[name] = [
            [cell.strip() for cell in row] for row in [rows[0], *rows[2:]]
        ]
    return by_caption


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    """A comparison of three losses, of which one is better."""
    folder = tmp_path_factory.mktemp("three")
    jobs = made(folder, LOSSES, 5, skill=(0.7, 0.7, 0.85))
    rows, html, text = written(jobs, folder)
    page = Page(html).root
    record, drawn = record_of(folder), page.findall(".//svg[@role='img']")
    return types.SimpleNamespace(
        rows=rows, html=html, markdown=text, page=page, record=record, drawn=drawn
    )


def test_the_table_repeats_the_rows(three):
    for by_caption in (tables(three.page), markdown_tables(three.markdown)):
        cells = table(by_caption, HEADLINE)
        assert list(cells) == ["ce", "focal", "dice"]  # the best first
        for loss, row in three.rows.items():
            scores = [100 * run.score for run in row.runs]
            mean, spread = statistics.fmean(scores), statistics.stdev(scores)
            assert cells[loss]["F1"] == f"{mean:.2f} ± {spread:.2f}"
            assert cells[loss]["seeds"] == "5"
        focal, crossed = cells["focal"], three.rows["focal"].against.crossed
        printed = [focal["difference"], *focal["95% CI"].split(" to ")]
        assert list(map(number, printed)) == pytest.approx(
            [100 * x for x in (crossed.mean, crossed.low, crossed.high)], abs=0.005
        )
        assert focal["seeds needed"] == CELLS.needed(three.rows["focal"].against)
        dice = three.rows["dice"].against
        assert cells["dice"]["p (Holm)"] == f"{dice.p_value:.3f}"


def test_the_weight_of_an_example_of_the_rarest_class_is_stated(three, tmp_path):
    assert "The test set has only" not in three.markdown  # of 250 or more
    types = ("A", "B", "C", "D")
    _, _, text = written(made(tmp_path, LOSSES, 3, types=types), tmp_path)
    # 1000 // 4**3 = 15, and 100 / 15 = 6.7
    sentence = "only 15 of the rarest class, 'D': each is 6.7 points of its recall"
    assert sentence in text


def test_every_loss_has_its_verdict(three):
    (claims,) = three.page.findall(".//ul[@class='claims']")
    for loss, item, outcome in zip(
        ("focal", "dice"), claims.iter("li"), ("better", "inconclusive"), strict=True
    ):
        sentence = three.rows[loss].against.verdict.sentence
        assert item.get("class") == outcome
        assert " ".join(content(item).split()).endswith(f"{loss}: {sentence}")
        assert f"**{loss}**: {sentence}" in three.markdown
    assert three.record["warnings"] == []


def test_the_same_numbers_are_written_for_programs(three):
    focal = three.record["losses"]["focal"]
    assert list(three.record["losses"]) == ["ce", "focal", "dice"]
    test, outcomes = three.rows["focal"].against, three.rows["focal"].runs
    assert focal["against_baseline"]["p_value"] == test.p_value
    assert focal["runs"][1]["folder"] == "focal/seed-1"
    by_seed = [run_of(run).score_counts()["tags"][1:] for run in outcomes]
    # By hand, from the highest threshold down: precision where a positive is met.
    total = np.sum(by_seed, axis=(0, 1))[:, ::-1].cumsum(axis=1)
    precision = total[1] / np.maximum(total.sum(axis=0), 1)
    gained = np.diff(total[1], prepend=0) / total[1, -1]
    curves = three.record["curves"]["focal"]
    assert curves["scores"]["tags"]["average_precision"] == pytest.approx(
        float(gained @ precision)
    )
    assert curves["dev"]["step"] == [50, 100]
    scores = [run.score for run in outcomes]
    last = curves["dev"]["mean"][1], curves["dev"]["mean_plus_sd"][1]
    mean, spread = np.mean(scores), np.std(scores, ddof=1)
    assert last == pytest.approx((mean, mean + spread))


def test_pictures_are_drawn_from_the_numbers(three):
    rows = tuple(three.rows.values())
    counts = np.sum(list(counts_of(three.rows["dice"])["tags"].values()), axis=0)
    bins = [x for x in score_counts.reliability(counts).bins if x.count]
    compared = Comparison(name="x", rows=rows)
    (picture,) = pictures.calibration(compared)
    (axes,) = picture.panels["dice"].axes
    assert axes.get_xlabel() == "Predicted probability"
    assert axes.get_ylabel() == "Frequency"
    x, y = axes.lines[-1].get_data()
    np.testing.assert_array_equal(x, [x.confidence for x in bins])
    np.testing.assert_array_equal(y, [x.accuracy for x in bins])
    runs = pictures.strip(rows, "f1")
    (axes,) = runs.panels["Every run"].axes
    (focal,) = [line for line in axes.lines if line.get_gid() == "runs-of-1"]
    scores = [100 * run.score for run in three.rows["focal"].runs]
    assert sorted(focal.get_xdata()) == pytest.approx(sorted(scores))
    with figures.look():
        axes.set_xlabel("0.9999 < 1")
        svg = figures.element(axes.figure, "k", "Runs", "All")
    assert ">0.9999 &lt; 1</text>" in svg and 'id="k-name">Runs</title>' in svg
    dev, _ = pictures.learning(compared)
    (axes,) = dev.panels["focal"].axes
    assert axes.get_xlabel() == "Training step" and axes.get_ylabel() == "Dev F1 (%)"
    assert axes.lines[-1].get_ydata()[-1] == pytest.approx(np.mean(scores))


def test_what_comes_from_data_is_text(tmp_path):
    folder = tmp_path / "<script>alert(1)"
    name = SCRIPT.replace("/", "")  # which a name has not
    names = {"labels": ("O", f"B-{SCRIPT}", "I-|*`_"), "types": (SCRIPT, "|*`_")}
    experiment = dataclasses.replace(EXPERIMENT, name=name)
    jobs = made(folder, LOSSES, 2, experiment=experiment, **names)
    _, html, text = written(jobs, tmp_path / "elsewhere")
    page = Page(html).root
    assert not elements(page, "script") and "<script" not in html
    assert f"{folder}/ce/seed-0" in content(page)  # the folder's name, too
    classes = table(tables(page), "F1 (%) of each class")
    assert set(classes) == {SCRIPT, "|*`_"}
    assert content(page.find(".//h1")) == f"{name}: loss comparison"
    assert any(name in content(title) for title in page.iter("title"))
    # Code blocks show everything verbatim.
    assert SCRIPT not in text and "<script" not in text
    outside = re.sub(r"<pre><code>[^<]*</code></pre>", "", text)
    assert "<" not in outside
    assert "| &lt;script&gt;alert(1)&lt;/script&gt; | 1,000 |" in outside
    assert r"| \|\*\`\_ | 250 |" in outside


def test_it_needs_nothing_from_elsewhere(three):
    loads = "script", "link", "img", "iframe", "object", "base"
    assert not elements(three.page, *loads)
    for element in three.page.iter():
        assert "src" not in element.attrib
        assert element.get("href", "#").startswith("#")
        assert not any(name.startswith("on") for name in element.attrib)
    (style,) = three.page.iter("style")
    assert "url(" not in style.text and "@import" not in style.text
    assert "prefers-color-scheme: dark" in style.text
    html = three.html.replace("http://www.w3.org", "").replace("http-equiv", "")
    assert "http" not in html
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    assert f'http-equiv="Content-Security-Policy" content="{policy}' in three.html
    # Every colour is set by the page, in light and in dark.
    styles = " ".join(str(x.get("style")) for svg in three.drawn for x in svg.iter())
    assert "var(--loss, #0b5cad)" in styles
    assert not re.search(r"(?<!, )#[0-9a-f]{6}", styles)


def test_it_can_be_read_aloud(three):
    page = three.page
    assert page.tag == "html" and page.get("lang") == "en"
    levels = [int(x.tag[1]) for x in elements(page, "h1", "h2", "h3", "h4")]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(b - a <= 1 for a, b in itertools.pairwise(levels))
    for table in page.iter("table"):
        assert content(table.find("caption"))
        assert {th.get("scope") for th in table.iter("th")} == {"col", "row"}
    ids = [x.get("id") for x in page.findall(".//*[@id]")]
    assert len(set(ids)) == len(ids)
    for element in page.iter():
        for name in ("aria-labelledby", "href"):
            for target in (element.get(name) or "").split():
                assert target.lstrip("#") in ids
    # Forest, strip; 2 learning, 2 threshold, 1 calibration, 1 class figure of 3 losses.
    assert len(three.drawn) == 2 + 6 * 3
    assert all(content(svg.find(".//title")) for svg in three.drawn)
    described = [content(svg.find(".//desc")) for svg in three.drawn]
    expected = r"AP \d\d\.\d\d vs\. \d\d\.\d\d; Precision by Recall"
    assert all(described)
    assert any(re.fullmatch(expected, text) for text in described)
    assert content(page).count("Show data") == 1 + 6


def test_a_page_sets_one_rival_beside_the_baseline(tmp_path):
    losses = (CrossEntropy(), Focal(), WeightedCrossEntropy())
    jobs = made(tmp_path, losses, 5, skill=(0.5, 0.6, 0.9))
    report.write(comparison.evaluate_runs(jobs, str(tmp_path)))
    text = (tmp_path / "report.md").read_text()
    (of_classes,) = re.findall(r"mean over seeds: ce vs. (\S+):", text)
    (changed,) = re.findall(r"^(\S+) is right more often than ce on", text, re.M)
    assert of_classes == changed == "wce"
    titles = re.findall(r"^#+ (.*)$", text, re.M)
    assert len(titles) == len(set(titles)) and "Every run" in titles


def test_missing_and_diverged_runs_are_reported_first(tmp_path):
    jobs = made(tmp_path, (*LOSSES, Tversky()), 3)
    for job in jobs:
        if (job.loss, job.seed) in (("dice", 1), ("focal", 2)) or job.loss == "tversky":
            (epath.Path(job.folder) / "result.json").unlink()
            if job.loss != "focal":
                run_of(job).write_diverged("no finite loss")
    _, html, _ = written(jobs, tmp_path)
    warnings = record_of(tmp_path)["warnings"]
    missing, diverged = warnings
    assert missing.startswith("1 of 12 runs is not finished")
    assert missing.endswith("focal seed 2.")
    assert diverged.startswith("4 of 12 runs diverged")
    assert "dice seed 1, " in diverged
    page = Page(html).root
    (box,) = page.findall(".//div[@class='warnings']")
    assert [content(item) for item in box.iter("li")] == warnings
    cells = table(tables(page), HEADLINE)
    assert (cells["dice"]["diverged"], cells["focal"]["missing"]) == ("1", "1")
    # A loss that always diverges stays in sight.
    assert [cells["tversky"][k] for k in ("seeds", "F1", "diverged")] == ["0", "-", "3"]
    assert Tversky() in config.load(tmp_path / "rerun.py").compared


def test_rows_without_runs_of_their_own_are_in_tables_alone(tmp_path):
    outcomes = [scored(job) for job in made(tmp_path, LOSSES[:2], 2)]
    ce = [run for run in outcomes if run.loss == "ce"]
    control = [dataclasses.replace(run, loss="ce + tuned threshold") for run in ce]
    rows = tuple(rows_of([*outcomes, *control], "ce"))
    report.write(Comparison(name="mine", rows=rows, folder=str(tmp_path)))
    by_caption = tables(Page((tmp_path / "report.html").read_text()).root)
    for caption in (HEADLINE, "Test F1 (%) of each run"):
        assert "ce + tuned threshold" in table(by_caption, caption)
    assert set(table(by_caption, "Average precision (%)")) == {"ce", "dice"}
    assert set(table(by_caption, "Dev F1 (%)")) == {"ce", "dice"}


def test_the_choices_of_tuning_are_reported(tmp_path):
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
    _, html, text = written(made(tmp_path, LOSSES, 2), tmp_path, tuning)
    for by_caption in (tables(Page(html).root), markdown_tables(text)):
        cells = table(by_caption, "Chosen settings and their dev F1 (%)")
        assert {loss: list(line.values()) for loss, line in cells.items()} == {
            "ce": ["learning_rate 0.001 (as given)", "50.00", "50.00", "1"],
            "focal": ["learning_rate 0.002", "62.50", "50.00", "1"],
        }
        assert list(cells) == ["focal", "ce"]  # the order of the file


def test_the_file_to_run_it_again_is_the_same_comparison(tmp_path):
    losses = (*LOSSES, SelfAdjustingDice(alpha=0.5), Tversky(alpha=0.3))
    jobs = made(tmp_path, losses, 2)
    _, _, text = written(jobs, tmp_path)
    again = config.load(tmp_path / "rerun.py")
    by_run = {(job.loss, job.seed): job for job in jobs}
    jobs_again = comparison.jobs_of(again, again.compared, 2, str(tmp_path))
    assert {(job.loss, job.seed) for job in jobs_again} == set(by_run)
    for job in jobs_again:
        before = by_run[job.loss, job.seed]
        assert job.folder == before.folder
        same = dataclasses.replace(job.experiment, compared=EXPERIMENT.compared)
        assert same == before.experiment
    assert "dicejax compare rerun.py --seeds 2 --out FOLDER" in text


def test_eleven_losses_of_ten_seeds_stay_small(tmp_path):
    losses = [Tversky(alpha=round(0.05 * n, 2)) for n in range(1, 11)]
    _, html, _ = written(made(tmp_path, (CrossEntropy(), *losses), 10), tmp_path)
    assert len(html.encode()) < 1_000_000


def test_colours_stand_out_in_light_and_dark(three):
    (style,) = three.page.iter("style")
    blocks = re.findall(r":root \{(.*?)\}", style.text, re.DOTALL)
    assert len(blocks) == 3  # light, dark, print
    for block in blocks:
        colours = {
            name: f"rgb({','.join(map(str, bytes.fromhex(digits)))})"
            for name, digits in re.findall(r"--(\w+): #(\w{6})", block)
        }
        for back, name in itertools.product(
            ("page", "box"), ("text", "soft", "loss", "base", "rule", "good", "bad")
        ):
            assert contrast(colours[name], 1, [colours[back]]) >= 4.5, (name, back)
