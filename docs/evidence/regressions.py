"""Models that are no fine-tuned encoder, beside set 2 of the third protocol.

    python docs/evidence/regressions.py --data DATA --encoders minilm MODEL

trains logistic regressions on the mean of the frozen encoder's last states and on
TF-IDF of words and pairs of words, on the training sample of each seed. Penalty, class
weights and threshold are those with the best F1 on dev. The scores of each test text
are archived next to those of the runs. It takes scikit-learn.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import archive
import jax
import jax.numpy as jnp
import numpy as np
import third
import tyro
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, precision_recall_curve

import dicejax as dj
from dicejax.data.source import Corpus
from dicejax.study.compare.jobs import ScoredRun

PENALTIES = (0.1, 1.0, 10.0, 100.0, 1000.0)
WEIGHTS = (None, "balanced")
ROWS, LONGEST = 64, 128
SPLITS = ("train", "dev", "test")


class Chosen(NamedTuple):
    """The decisions of a regression on test, and its settings."""

    decisions: np.ndarray
    settings: dict[str, Any]


def main(data: Path, encoders: dict[str, Path]) -> None:
    """Archive the regressions of each length and seed that has none yet.

    Args:
      data: folder of all data.
      encoders: folder of each encoder, by its name in the protocol.
    """
    for cell in third.CELLS:
        if cell.data.name != "sst2" or cell.encoder.name not in encoders:
            continue
        folder = encoders[cell.encoder.name]
        states = States(folder)
        for length, seed in itertools.product(third.LENGTHS, cell.seeds):
            name = f"{cell.archive_of(length)}-regressions"
            archived = archive.read(name)
            if any(run.seed == seed for run in archived.runs):
                continue
            run = third.Run(cell, "ce", third.Setting(2e-4, 1.0), seed, length)
            corpus = run.job(Path(), data, folder).experiment.data.load()
            outcomes = outcomes_of(corpus, states, seed)
            new = archive.Archived(tuple(outcomes), (), {})
            file = archive.file_of(name)
            file.parent.mkdir(parents=True, exist_ok=True)
            archive.write(archive.merged(archived, new), file)
            scores = (f"{x.loss} {100 * x.score:.2f}" for x in outcomes)
            print(f"{name} seed {seed}: {', '.join(scores)}", flush=True)


class States:
    """Means of the last states of texts, which are computed once.

    Args:
      folder: of the encoder.
    """

    def __init__(self, folder: Path):
        heads = {"unused": dj.TokenHead(classes=2)}
        self._model, self._params, self._tokenizer = dj.from_pretrained(folder, heads)
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(LONGEST)
        self._states: dict[str, np.ndarray] = {}
        self._mean = jax.jit(self._means)

    def of(self, texts: Sequence[str]) -> np.ndarray:
        """Return the means of texts, float `[N, D]`."""
        new = sorted({*texts} - self._states.keys(), key=len)
        for start in range(0, len(new), ROWS):
            some = new[start : start + ROWS]
            encoded = self._tokenizer.encode_batch(some)
            width = max(len(each.ids) for each in encoded)
            ids = np.zeros((ROWS, -(-width // 16) * 16), np.int32)
            real = np.zeros_like(ids)
            for row, mask, each in zip(ids, real, encoded, strict=False):
                row[: len(each.ids)], mask[: len(each.ids)] = each.ids, 1
            means = np.asarray(self._mean(self._params, ids, real))
            self._states.update(zip(some, means, strict=False))
        return np.stack([self._states[text] for text in texts])

    def _means(self, params: Any, ids: jax.Array, real: jax.Array) -> jax.Array:
        batch = {
            "input_ids": ids,
            "segment_ids": real,
            "position_ids": jnp.arange(ids.shape[1]) * real,
            "token_type_ids": jnp.zeros_like(ids),
        }
        states = self._model.hidden_states(params, batch)[-1] * real[..., None]
        return states.sum(1) / jnp.maximum(real.sum(1), 1)[:, None]


def outcomes_of(corpus: Corpus, states: States, seed: int) -> list[ScoredRun]:
    """Return the regressions on a training sample."""
    texts = {x: [each.first for each in getattr(corpus, x)] for x in SPLITS}
    gold = {
        x: np.array([each.label == "1" for each in getattr(corpus, x)]) for x in SPLITS
    }
    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True).fit(texts["train"])
    outcomes = []
    for name, features in (("frozen encoder", states.of), ("TF-IDF", words.transform)):
        began = time.monotonic()
        made = {split: features(some) for split, some in texts.items()}
        decisions, settings = regression(made, gold)
        shares = np.stack(
            [2 * (decisions & gold["test"]), 1 * decisions + gold["test"]], axis=-1
        )
        result = {
            "primary_metric": "f1",
            "test": {"f1": float(f1_score(gold["test"], decisions))},
            "seconds": round(time.monotonic() - began, 1),
            "versions": {x: metadata.version(x) for x in ("scikit-learn", "jax")},
            "settings": settings,
        }
        outcomes.append(
            ScoredRun(name, seed, "", "finished", result, shares[:, None].astype(float))
        )
    return outcomes


def regression(features: dict[str, Any], gold: dict[str, np.ndarray]) -> Chosen:
    """Return the regression whose settings have the best F1 on dev.

    Args:
      features: of the examples of each split.
      gold: whether they are positive.
    """
    best, chosen = -1.0, None
    for penalty, weights in itertools.product(PENALTIES, WEIGHTS):
        model = LogisticRegression(C=penalty, class_weight=weights, max_iter=2000)
        model.fit(features["train"], gold["train"])
        dev, test = (model.decision_function(features[x]) for x in ("dev", "test"))
        precision, recall, limits = precision_recall_curve(gold["dev"], dev)
        f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-12)
        place = int(f1[:-1].argmax())  # the last has no threshold
        if f1[place] > best:
            best = f1[place]
            settings = {"C": penalty, "weights": weights, "dev": float(best)}
            chosen = Chosen(test >= limits[place], settings)
    assert chosen is not None
    return chosen


if __name__ == "__main__":
    sys.exit(tyro.cli(main, use_underscores=True))
