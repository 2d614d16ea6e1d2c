"""How many broken labels are among the first of each ranking, and what a check states.

    pip install cleanlab
    python docs/evidence/review.py --data DATA --encoder MODEL

breaks 5 % of the labels of 2,000 training examples, trains models without each third of
them, and ranks all by what the models say of the third that they did not see: by
`dicejax review`, by the scores of cleanlab and by the loss of one model. The ranks of
the broken examples are archived in docs/evidence/scores/review.json. What is there is
not done again; `--sets` and `--seeds` do some.

`--corrected FILE` is conllpp_test.txt of CrossWeigh, the test set of CoNLL-2003 with
its errors mended by hand: models that were trained on 4,000 clean sentences rank it.
`--simulate` simulates the interval of the marks. `--table` prints the tables of
docs/review.md.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import random
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import archive
import numpy as np
import tyro

from dicejax.config import Experiment, PretrainedEncoder, Training
from dicejax.data import tags
from dicejax.data.examples import LabelledText, Sentence, Span
from dicejax.formats import ConllFiles, TextFiles
from dicejax.objectives import Control, CrossEntropy
from dicejax.optimizers import AdamW
from dicejax.study.compare.jobs import Job, train_all, with_seed
from dicejax.study.review.held_out import HeldOut, judge
from dicejax.study.review.ranking import margins, scores_of, worst_places
from dicejax.study.review.statement import drawn_share, to_check
from dicejax.tasks import Classification, Tagging
from dicejax.training.candidate import with_candidate
from dicejax.training.progress import TrainingProgress

FILE = archive.SCORES / "review.json"
SETS = ("conll2003", "sst2", "mrpc")
SHARE, EXAMPLES, PARTS, UPDATES = 0.05, 2000, 3, 100
METHODS = ("self_confidence", "normalized_margin", "confidence_weighted_entropy")
FIRST = (50, 100, 200)
KINDS = ("missing", "extra", "boundary", "type")
ROWS = {
    "review": "`review`",
    "mean margin, no classes": "the same without classes",
    "cleanlab self_confidence": "cleanlab, self-confidence",
    "cleanlab normalized_margin": "cleanlab, normalised margin",
    "cleanlab confidence_weighted_entropy": "cleanlab, weighted entropy",
    "review of ce alone": "`review` of one model",
    "cleanlab self_confidence of ce alone": "cleanlab, self-confidence of one",
    "loss of ce, mean": "loss of one model",
    "loss of ce, worst word": "loss of one model, worst word",
}
"""Rankings in the tables; the others are in the archive."""
CANDIDATES = {
    "ce": CrossEntropy(),
    "tfidf": Control("tfidf"),
    "frozen": Control("frozen"),
}


def sentences(data: Path, split: str) -> list[Sentence]:
    """Return sentences of CoNLL-2003."""
    return ConllFiles(dir="").read(data / "conll2003" / f"{split}.txt", None)


def texts(data: Path, name: str, split: str) -> list[LabelledText]:
    """Return texts of SST-2, or pairs of MRPC."""
    fields = {"first": "#1 String", "second": "#2 String", "label": "Quality"}
    if name == "sst2":
        fields = {"first": "sentence", "label": "label"}
    source = TextFiles(dir="", separator="\t", quoted=False, **fields)
    return list(source.read(data / name / f"{split}.tsv", None))


def break_sentences(
    examples: Sequence[Sentence], draw: random.Random
) -> tuple[list[Sentence], list[str]]:
    """Break the label of 5 % of the entities, one of a sentence, in four ways alike.

    Returns:
      The sentences, and the kind of error of each, "" without.
    """
    types = sorted({span.type for x in examples for span in x.spans})
    wanted = round(SHARE * sum(len(x.spans) for x in examples))
    broken, kinds = list(examples), [""] * len(examples)
    places = draw.sample(range(len(examples)), len(examples))
    for number in range(wanted):
        kind = KINDS[number % len(KINDS)]
        for place in places:
            if kinds[place]:
                continue
            spans = _broken(examples[place], kind, types, draw)
            if spans is not None:
                broken[place] = dataclasses.replace(examples[place], spans=spans)
                kinds[place] = kind
                places.remove(place)
                break
    return broken, kinds


def _broken(
    sentence: Sentence, kind: str, types: Sequence[str], draw: random.Random
) -> tuple[Span, ...] | None:
    """Return the spans with an error of a kind; None where there is no room for it."""
    spans, words = list(sentence.spans), sentence.words
    taken = {n for span in spans for n in range(span.start, span.end)}
    free = [n for n in range(len(words)) if n not in taken and words[n].isalpha()]
    if kind == "extra":
        if not free:
            return None
        start = draw.choice(free)
        spans.append(Span(draw.choice(types), start, start + 1))
        return tuple(sorted(spans, key=lambda x: x.start))
    if not spans:
        return None
    place = draw.randrange(len(spans))
    span = spans[place]
    if kind == "missing":
        del spans[place]
        return tuple(spans)
    if kind == "type":
        other = draw.choice([name for name in types if name != span.type])
        spans[place] = Span(other, span.start, span.end)
        return tuple(spans)
    ends = [(span.start + 1, span.end), (span.start, span.end - 1)]
    ends += [(span.start - 1, span.end)] * (span.start - 1 in free)
    ends += [(span.start, span.end + 1)] * (span.end in free)
    ends = [(start, end) for start, end in ends if start < end]
    if not ends:
        return None
    spans[place] = Span(span.type, *draw.choice(ends))
    return tuple(spans)


def break_texts(
    examples: Sequence[LabelledText], draw: random.Random
) -> tuple[list[LabelledText], list[str]]:
    """Flip the class of 5 % of texts."""
    out = set(draw.sample(range(len(examples)), round(SHARE * len(examples))))
    other = {"0": "1", "1": "0"}
    made = [
        dataclasses.replace(x, label=other[x.label]) if n in out else x
        for n, x in enumerate(examples)
    ]
    return made, ["flipped" * (n in out) for n in range(len(examples))]


def write(folder: Path, name: str, examples: Sequence[Any]) -> None:
    """Write examples to a file of columns, or of JSON lines."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for x in examples:
        if isinstance(x, Sentence):
            made = tags.encode(x.spans, len(x.words), "BIO")
            lines += [f"{w} {t}" for w, t in zip(x.words, made, strict=True)] + [""]
        else:
            fields = {"text": x.first, "second": x.second, "label": x.label}
            lines.append(json.dumps({k: v for k, v in fields.items() if v is not None}))
    (folder / name).write_text("\n".join(lines) + "\n")


def experiment_of(name: str, folder: Path, encoder: Path, updates: int) -> Experiment:
    """Return the experiment on a broken part of train."""
    data: Any = ConllFiles(dir=str(folder), train="train", dev="dev", test="test")
    task: Any = Tagging()
    if name != "conll2003":
        second = "second" if name == "mrpc" else None
        reads = {"layout": "json", "first": "text", "second": second, "label": "label"}
        splits = {"train": "train", "dev": "dev", "test": "test"}
        data = TextFiles(dir=str(folder), **splits, **reads)
        task = Classification(primary_metric="accuracy", positive="0")
    seen = EXAMPLES * (PARTS - 1) // PARTS
    return Experiment(
        name=name,
        data=data,
        task=task,
        encoder=PretrainedEncoder(path=str(encoder)),
        optimizer=AdamW(learning_rate=2e-4, warmup=0.1),
        training=Training(
            epochs=max(1, round(updates * 32 / seen)),
            batch_size=32,
            max_length=128,
            precision="float32",
        ),
    )


def jobs_of(
    experiment: Experiment, losses: Sequence[str], runs: Path, parts: int = PARTS
) -> list[Job]:
    """Return the runs of losses without each part, or of all of train."""
    jobs = []
    for loss in losses:
        made = with_candidate(with_seed(experiment, 0, False), CANDIDATES[loss])
        for part in range(1, parts + 1):
            data: Any = made.data
            if parts > 1:
                data = dataclasses.replace(data, leave_out=f"{part}/{parts}")
            folder = str(runs / f"{loss}-0" / f"part-{part}")
            jobs.append(Job(loss, dataclasses.replace(made, data=data), folder))
    return jobs


def rankings(held_out: HeldOut, losses: Sequence[str]) -> dict[str, np.ndarray]:
    """Return a score of each example by each ranking, the most doubtful the least."""
    from cleanlab.rank import get_label_quality_scores
    from cleanlab.token_classification.rank import (
        get_label_quality_scores as of_tokens,
    )

    starts, gold = held_out.starts, held_out.gold
    names = np.array([name.partition(" ")[0] for name in held_out.models])
    with warnings.catch_warnings():  # a part that a model was trained on is NaN
        warnings.simplefilter("ignore", RuntimeWarning)
        by_loss = {x: np.nanmean(held_out.shares[names == x], 0) for x in losses}
    mean = np.mean([*by_loss.values()], 0)
    scores = {"review": scores_of(held_out.shares, gold)}
    scores |= {
        f"review of {x} alone": scores_of(y[None], gold) for x, y in by_loss.items()
    }
    scores = {
        name: values[worst_places(values, starts)] for name, values in scores.items()
    }
    margin = margins(held_out.shares, gold)
    plain = np.nansum(margin, 0) / (~np.isnan(margin)).sum(0)
    scores["mean margin, no classes"] = plain[worst_places(plain, starts)]
    for what, shares in {"": mean, " of ce alone": by_loss["ce"]}.items():
        if len(gold) == len(held_out.examples):
            for method in METHODS:
                scores[f"cleanlab {method}{what}"] = get_label_quality_scores(
                    gold, shares.astype(float), method=method
                )
        else:
            cuts = starts[1:-1]
            golds = [x.tolist() for x in np.split(gold, cuts)]
            by_sentence = [x.astype(float) for x in np.split(shares, cuts)]
            for method in METHODS[:2]:
                scores[f"cleanlab {method}{what}"] = of_tokens(
                    golds, by_sentence, token_score_method=method
                )[0]
    likely = np.log(by_loss["ce"][np.arange(len(gold)), gold] + 1e-9)
    sums = np.add.reduceat(likely, starts[:-1])
    scores["loss of ce, mean"] = sums / np.diff(starts)
    if len(gold) != len(held_out.examples):
        scores["loss of ce, worst word"] = likely[worst_places(likely, starts)]
    return scores


def ranks_of(scores: np.ndarray, chosen: Sequence[int]) -> list[int]:
    """Return the ranks, from 1, of some examples."""
    rank = np.empty(len(scores), int)
    rank[np.argsort(scores, kind="stable")] = np.arange(1, len(scores) + 1)
    return rank[list(chosen)].tolist()


def broken_set(
    name: str, seed: int, data: Path, encoder: Path, runs: Path, losses: Sequence[str]
) -> dict[str, Any]:
    """Break a set, train, and return the ranks of what is broken."""
    draw, folder = random.Random(seed), runs / f"{name}-{seed}"
    if name == "conll2003":
        train: Any = draw.sample(sentences(data, "train"), EXAMPLES)
        dev: Any = sentences(data, "dev")
        broken, kinds = break_sentences(train, draw)
    else:
        train = draw.sample(texts(data, name, "train"), EXAMPLES)
        dev = texts(data, name, "dev")
        broken, kinds = break_texts(train, draw)
    for split, some in {
        "train": broken,
        "dev": dev[:200],
        "test": dev[200:300],
    }.items():
        write(folder / "data", split, some)
    experiment = experiment_of(name, folder / "data", encoder, UPDATES)
    jobs = jobs_of(experiment, losses, folder / "runs")
    train_all(jobs, TrainingProgress(quiet=True))
    held_out = judge(jobs, ["train"], print)
    numbers = [n for n, kind in enumerate(kinds) if kind]
    scores = rankings(held_out, losses)
    return {
        "examples": len(train),
        "models": list(losses),
        "kinds": [kinds[n] for n in numbers],
        "classes": [_class(train[n], broken[n]) for n in numbers],
        "ranks": {x: ranks_of(y, numbers) for x, y in scores.items()},
    }


def _class(clean: Any, broken: Any) -> str:
    """Return the true class of what is broken; that of an entity which is none."""
    if isinstance(clean, LabelledText):
        return str(clean.label)
    gone = [span for span in clean.spans if span not in broken.spans]
    new = [span for span in broken.spans if span not in clean.spans]
    return (gone or new)[0].type


def corrected_test(
    file: Path, data: Path, encoder: Path, runs: Path, losses: Sequence[str]
) -> dict[str, Any]:
    """Rank the test set of CoNLL-2003, and return the ranks of what was corrected."""
    draw, folder = random.Random(0), runs / "corrected"
    test = sentences(data, "test")
    mended = ConllFiles(dir="").read(file, None)
    if [x.words for x in test] != [x.words for x in mended]:
        raise SystemExit(f"{file}: has other sentences than {data / 'conll2003'}")
    train = draw.sample(sentences(data, "train"), 2 * EXAMPLES)
    dev = sentences(data, "dev")[:200]
    for split, some in {"train": train, "dev": dev, "test": test}.items():
        write(folder / "data", split, some)
    experiment = experiment_of("conll2003", folder / "data", encoder, 125)
    training = dataclasses.replace(experiment.training, epochs=1)
    experiment = dataclasses.replace(experiment, training=training)
    jobs = jobs_of(experiment, losses, folder / "runs", parts=1)
    train_all(jobs, TrainingProgress(quiet=True))
    results = [json.loads((Path(x.folder) / "result.json").read_text()) for x in jobs]
    held_out = judge(jobs, ["test"], print)
    pairs = enumerate(zip(test, mended, strict=True))
    numbers = [n for n, (x, y) in pairs if x.spans != y.spans]
    scores = rankings(held_out, losses)
    return {
        "examples": len(test),
        "models": list(losses),
        "f1": {x.loss: y["test"]["f1"] for x, y in zip(jobs, results, strict=True)},
        "ranks": {x: ranks_of(y, numbers) for x, y in scores.items()},
    }


def coverage(lists: int = 1000, examples: int = 3000) -> dict[str, Any]:
    """Return how often the interval of a list of 50 holds the true share of errors.

    Of the errors a share stands among the first 100, in a random order.
    """
    share = functools.cache(drawn_share)
    content: dict[str, Any] = {}
    for rate in (0.005, 0.02, 0.05, 0.2):
        for ahead in (0.0, 0.5):
            draw = np.random.default_rng((int(1000 * rate), int(10 * ahead)))
            held, widths, bias = 0, [], []
            for number in range(lists):
                total = round(rate * examples)
                front = min(round(ahead * total), 100)
                wrong = np.zeros(examples, bool)
                wrong[draw.choice(100, front, replace=False)] = True
                behind = draw.choice(examples - 100, total - front, replace=False)
                wrong[100 + behind] = True
                first, drawn = to_check(examples, 50, seed=number)
                rest = examples - len(first)
                value, low, high = (
                    (wrong[first].sum() + rest * x) / examples
                    for x in share(rest, len(drawn), int(wrong[drawn].sum()))
                )
                held += low - 1e-9 <= wrong.mean() <= high + 1e-9
                widths.append(high - low)
                bias.append(value - wrong.mean())
            content[f"{rate:g} wrong, {ahead:g} of them ahead"] = {
                "held": held / lists,
                "mean width": float(np.mean(widths)),
                "mean error": float(np.mean(bias)),
            }
    return content


def main(
    data: Path = Path("DATA"),
    encoder: Path = Path("MODEL"),
    sets: tuple[str, ...] = SETS,
    seeds: tuple[int, ...] = (0,),
    losses: tuple[str, ...] = ("tfidf", "frozen", "ce"),
    corrected: Path | None = None,
    simulate: bool = False,
    runs: Path = Path("runs/review"),
    table: bool = False,
) -> None:
    """Do what the archive lacks, or print the table."""
    content = json.loads(FILE.read_text()) if FILE.exists() else {}
    if table:
        for line in lines_of(content):
            print(line)
        return
    if simulate:
        content["coverage"] = coverage()
        _save(content)
    if corrected is not None and "CoNLL++" not in content:
        made = corrected_test(corrected, data, encoder, runs, losses)
        content["CoNLL++"] = made
        _save(content)
    for name in sets:
        for seed in seeds:
            if str(seed) in content.get(name, {}):
                continue
            made = broken_set(name, seed, data, encoder, runs, losses)
            content.setdefault(name, {})[str(seed)] = made
            _save(content)


def _save(content: dict[str, Any]) -> None:
    """Add to the archive what another process may have added to meanwhile."""
    before = json.loads(FILE.read_text()) if FILE.exists() else {}
    for name, values in content.items():
        is_seeds = name in SETS
        before[name] = {**before.get(name, {}), **values} if is_seeds else values
    FILE.write_text(json.dumps(before, sort_keys=True) + "\n")


def average_precision(ranks: Sequence[int]) -> float:
    """Return the mean, over broken examples, of the precision down to each."""
    return float(np.mean(np.arange(1, len(ranks) + 1) / np.sort(ranks)))


def lines_of(content: dict[str, Any]) -> Iterator[str]:
    """Yield the tables of docs/review.md."""
    for name in SETS:
        seeds = list(content.get(name, {}).values())
        if not seeds:
            continue
        counts = Counter(x for each in seeds for x in each["classes"])
        rarest = min(counts, key=lambda x: counts[x])
        yield from head(name, f"of {rarest} in 200")
        for ranking, title in ROWS.items():
            if ranking not in seeds[0]["ranks"]:
                continue
            ranks = [each["ranks"][ranking] for each in seeds]
            pairs = [
                rank <= max(FIRST)
                for each, some in zip(seeds, ranks, strict=True)
                for rank, label in zip(some, each["classes"], strict=True)
                if label == rarest
            ]
            yield row(title, ranks, f"{100 * np.mean(pairs):.0f} %")
    if "CoNLL++" in content:
        yield from head("CoNLL++")
        for ranking, title in ROWS.items():
            if ranking in (of_test := content["CoNLL++"]["ranks"]):
                yield row(title, [of_test[ranking]])
    yield ""
    yield "| wrong | of these ahead | held | mean width | mean error |"
    yield "| ---: | ---: | ---: | ---: | ---: |"
    for name, each in content.get("coverage", {}).items():
        rate, _, ahead = name.partition(" wrong, ")
        cells = [f"{100 * float(rate):g} %", f"{100 * float(ahead.split()[0]):g} %"]
        cells += [
            f"{100 * each[x]:.1f} %" for x in ("held", "mean width", "mean error")
        ]
        yield f"| {' | '.join(cells)} |"


def head(name: str, *more: str) -> Iterator[str]:
    """Yield the first lines of a table."""
    yield ""
    names = [name, *(f"first {most}" for most in FIRST), "average precision", *more]
    yield f"| {' | '.join(names)} |"
    yield f"| --- |{' ---: |' * (len(names) - 1)}"


def row(title: str, ranks: Sequence[Sequence[int]], *more: str) -> str:
    """Return a line: how many of the first are broken, the mean over the seeds."""
    cells = []
    for most in FIRST:
        hits = [sum(rank <= most for rank in some) for some in ranks]
        cells.append(f"{np.mean(hits):g}")
    mean = np.mean([average_precision(some) for some in ranks])
    return f"| {' | '.join([title, *cells, f'{100 * mean:.1f}', *more])} |"


if __name__ == "__main__":
    tyro.cli(main)
