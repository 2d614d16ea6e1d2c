"""Archives hold all runs, and statistics follow from them."""

import dataclasses
import json

import numpy as np
import pytest
from scipy import stats

from dicejax.study.significance import nominal_level

from .conftest import some_of


def test_archives_hold_what_the_scores_are_computed_from(evidence):
    parts = [evidence(name) for name in ("curve", "thinned", "reading")]
    for table in [table for part in parts for table in part.finished()]:
        for row in table.rows:
            for outcome in row.runs:
                above, below = outcome.example_statistics[:, 0].sum(0)
                f1 = above / below if below else 0.0
                assert outcome.score == pytest.approx(f1, abs=1e-12)


def test_tuned_comparisons_are_corrected_over_their_part(evidence):
    tuned = evidence("tuned")
    alone = {
        (comparison.name, row.loss): row.against.p_alone
        for comparison in tuned.finished()
        for row in comparison.rows
        if row.against and not row.is_control
    }
    assert len(alone) == 22
    over_part = tuned.over_part()
    for (name, loss), p in alone.items():  # Holm: largest (m - rank) p so far
        smaller = sorted(other for other in alone.values() if other <= p)
        adjusted = max((22 - rank) * other for rank, other in enumerate(smaller))
        assert over_part[name][loss] == pytest.approx(min(adjusted, 1.0))
    table = evidence("tables").comparison(
        tuned.comparison("1000-2").rows, over_part=over_part["1000-2"]
    )
    for loss in ("focal", "dsc-smooth=0.01"):
        row = tuned.tables.row_of(tuned.comparison("1000-2").rows, loss)
        assert row.against.verdict.outcome == "better"  # by its own table alone
        (line,) = [line for line in table.splitlines() if f"| `{loss}` |" in line]
        assert line.endswith("| inconclusive |")


def test_the_mechanism_is_corrected_over_the_cells_of_its_protocol(
    evidence, monkeypatch, request
):
    part, archive = evidence("mechanism").MECHANISM, evidence("archive")
    curve = archive.read("curve/250-2")
    names = {"ce": "ce+prior", "dsc-smooth=0.01": "dsc-smooth=0.01"}
    runs = [
        dataclasses.replace(run, loss=names[run.loss], seed=run.seed + 10)
        for run in curve.runs
        if run.loss in names
    ]
    cells = {"mechanism/250-2": archive.Archived(tuple(runs), (), {})}
    nothing = archive.Archived((), (), {})
    request.addfinalizer(type(part).cell.cache_clear)
    type(part).cell.cache_clear()
    monkeypatch.setattr(archive, "read", lambda name: cells.get(name, nothing))
    (cell,) = part.finished()
    difference = cell.difference("dsc", "ce+prior")
    means = [
        np.mean([100 * run.score for run in runs if run.loss == loss])
        for loss in names.values()
    ]
    assert 100 * difference.mean == pytest.approx(means[1] - means[0])
    assert difference.sentences == 231
    assert part.adjusted_p()[250, 2] == pytest.approx(4 * difference.p_value)
    assert part.adjusted_p()[3500, 2] == 1
    assert part.claim(cell) == "unstable: no claim"  # cross-entropy fails in some
    assert "250 sentences and 2 epochs (`ce`, `prior bias`" in part.waiting()


def test_documents_take_the_place_of_their_sentences(evidence):
    documents, archive = evidence("documents"), evidence("archive")
    text = "-DOCSTART- O\n\nA O\nb O\n\nC O\n\n-DOCSTART- O\n\nD O\n"
    assert documents.sizes_of(text) == [2, 1]
    runs = archive.read("curve/3500-2")
    sizes = json.loads(documents.FILE.read_text())
    for run, grouped in zip(
        runs.runs[:3], documents.by_document(runs).runs[:3], strict=True
    ):
        parts = np.split(run.example_statistics, np.cumsum(sizes)[:-1])
        sums = np.stack([part.sum(0) for part in parts])
        np.testing.assert_array_equal(grouped.example_statistics, sums)


def test_failed_runs_are_counted_with_an_upper_limit(evidence, whole):
    tables = evidence("tables")
    for failed, runs in ((0, 5), (0, 10), (1, 10), (4, 10)):
        exact = stats.binomtest(failed, runs).proportion_ci(0.9, method="exact")
        assert tables.failure_limit(failed, runs) == pytest.approx(exact.high)
    assert tables.failure_limit(5, 5) == 1
    row = tables.row_of(whole.rows(), "dsc-smooth=0.01")
    assert tables.failures(row) == (0, 5)
    first, *others = row.runs
    half = dataclasses.replace(first, result=low_score(first.result))
    lost = dataclasses.replace(first, seed=9, status="diverged", result={})
    missing = dataclasses.replace(lost, seed=8, status="missing")
    some = dataclasses.replace(row, runs=(half, *others, lost, missing))
    assert tables.failures(some) == (2, 6)


def low_score(result):
    """Return a result with a third of the score."""
    scores = result["test"] | {"f1": result["test"]["f1"] / 3}
    return dict(result) | {"test": scores}


def test_runs_of_several_machines_are_archived_one_after_another(archive, whole):
    name = "curve/1000-2"
    early = some_of(whole, lambda run: run.seed < 3)
    late = some_of(whole, lambda run: run.seed >= 2)  # seed 2 is in both
    archive.write(archive.merged(archive.read(name), early), archive.file_of(name))
    begun = archive.read(name)
    assert (begun.seeds, begun.outcomes) == (0, [])
    assert len(archive.runs_of("curve")) == 21
    archive.write(archive.merged(begun, late), archive.file_of(name))
    both = archive.read(name)
    assert both.seeds == 5
    assert both.hours == pytest.approx(whole.hours)
    rows = zip(whole.rows(), both.rows(), strict=True)
    assert all((a.loss, a.against) == (b.loss, b.against) for a, b in rows)


def test_shares_of_answers_are_archived_to_the_last_bit(archive, whole):
    thirds = whole.runs[0].example_statistics / 3
    run = dataclasses.replace(whole.runs[0], example_statistics=thirds)
    archive.write(dataclasses.replace(whole, runs=(run,)), archive.file_of("curve/a"))
    (back,) = archive.read("curve/a").runs
    np.testing.assert_array_equal(back.example_statistics, thirds)


def test_two_runs_of_a_loss_and_seed_are_not_archived(archive, whole):
    counts = whole.runs[0].example_statistics + 1
    changes = {"folder": "elsewhere", "example_statistics": counts}
    run = dataclasses.replace(whole.runs[0], **changes)
    other = dataclasses.replace(whole, runs=(run,))
    with pytest.raises(SystemExit, match="elsewhere: is not the run of ce with seed 0"):
        archive.merged(whole, other)


def test_trials_are_archived_with_the_runs_that_they_are_of(archive, whole):
    tries = {2.0: None, 3.33: 0.8}
    trials = [
        {"dev": dev, "values": {"objective.gamma": g}} for g, dev in tries.items()
    ]
    record = {"losses": {"focal": {"trials": trials, "chosen": 1}}, "seconds": 7200.0}
    tuned = dataclasses.replace(whole, tuning=record)
    archive.write(tuned, archive.file_of("tuned/mrpc"))
    assert archive.merged(archive.read("tuned/mrpc"), tuned).tuning == record
    with pytest.raises(SystemExit, match="other trials than those of the archive"):
        archive.merged(archive.read("tuned/mrpc"), whole)


def test_a_look_waits_for_all_seeds_of_all_losses_that_learn(whole, evidence):
    later = [dataclasses.replace(run, seed=run.seed + 5) for run in whole.runs]
    runs = (*whole.runs, *later)

    def looks(chosen):
        return some_of(dataclasses.replace(whole, runs=runs), chosen)

    assert looks(lambda run: (run.loss, run.seed) != ("focal", 9)).seeds == 5
    assert looks(lambda run: (run.loss, run.seed) != ("focal", 4)).seeds == 0
    both = looks(lambda run: run.loss != "dsc-eq11" or run.seed == 0)  # learns nothing
    assert both.seeds == 10
    table = evidence("tables").comparison(both.rows())
    assert "| `dsc-eq11` | 1 | 0.00 | " in table
    rows = {row.loss: row.against for row in both.rows()}
    assert rows["dsc-eq11"].verdict.outcome == "nothing learnt"
    focal = rows["focal"].crossed
    assert focal.seeds == 10
    assert focal.level == pytest.approx(nominal_level([5, 10], 0.05))


def test_groups_of_examples_are_archived_with_their_runs(archive, whole):
    groups = np.arange(len(whole.runs[0].example_statistics)) // 3
    runs = tuple(dataclasses.replace(run, groups=groups) for run in whole.runs)
    grouped = dataclasses.replace(whole, runs=runs)
    first, second = (
        some_of(grouped, lambda run, of=seed: run.seed == of) for seed in (0, 1)
    )
    archive.write(first, archive.file_of("curve/250-2"))
    both = archive.merged(archive.read("curve/250-2"), second)
    archive.write(both, archive.file_of("curve/250-2"))
    for run in archive.read("curve/250-2").runs:
        np.testing.assert_array_equal(run.groups, groups)
        sums = [run.example_statistics[groups == n].sum(0) for n in np.unique(groups)]
        np.testing.assert_array_equal(run.item_statistics, sums)


def test_positives_are_thinned_to_a_share(evidence, tmp_path):
    for name in ("dev", "test"):
        lines = [f"{n % 2} the {name} text {n}\n" for n in range(40)]
        (tmp_path / f"{name}.txt").write_text("".join(lines))
    rows = [f"phrase {n}\t{int(n % 3 > 0)}\n" for n in range(300)]
    rows.append("the test text 1\t1\n")  # left out: a sentence of the test set
    (tmp_path / "train.tsv").write_text("sentence\tlabel\n" + "".join(rows))
    evidence("thin").main([*3 * [str(tmp_path)], "20", "50", "60"])

    def texts(share, name, label):
        lines = (tmp_path / share / f"{name}.txt").read_text().splitlines()
        return [line[2:] for line in lines if line[0] == label]

    for name, negatives in (("dev", 20), ("test", 20), ("train", 100)):
        counts = {s: len(texts(s, name, "1")) for s in ("20", "50", "60")}
        most = 150 if name == "train" else 20  # no more than there are
        assert counts == {"20": negatives // 4, "50": negatives, "60": most}
        assert all(len(texts(s, name, "0")) == negatives for s in counts)
        assert set(texts("20", name, "1")) < set(texts("60", name, "1"))
    assert "the test text 1" not in texts("60", "train", "1")


def test_means_of_texts_are_compared_with_cls_as_archived(evidence):
    pooled, archive = evidence("pooled"), evidence("archive")
    lines = [line.split(" | ") for line in pooled.of_poolings().splitlines()[2:]]
    assert len(lines) == 9
    for share, loss, *cells, failed in lines:
        scores = []
        for pooling in ("first", "mean"):
            name = f"pooled/{share.strip('| %')}-{pooling}"
            with np.load(archive.file_of(name)) as arrays:
                runs = json.loads(arrays["content"].item())["runs"]
                chosen = [f"`{run['loss']}`" == loss for run in runs]
                above, below = arrays["counts"][chosen, :, 0].sum(1, dtype=int).T
            scores.append(100 * above / below)
        first, mean = scores
        assert cells[:2] == [f"{x.mean():.2f} ± {x.std(ddof=1):.2f}" for x in scores]
        gain = f"{(mean - first).mean():+.2f} (".replace("-", "−")
        assert cells[2].startswith(gain if failed == "0 and 0 |" else "–")
