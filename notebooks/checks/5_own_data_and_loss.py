"""What the cells of the notebook of this name must have computed, by their ids."""

# %% own-data-and-loss-08
assert status == 0

# %% own-data-and-loss-10
assert status == 0

# %% own-data-and-loss-11
import json
from collections import Counter

import numpy as np

profiled = json.loads(Path("profile/profile.json").read_text())["splits"]
tags = Counter()
for name, split in profiled.items():
    examples = getattr(corpus, name)
    words = sum(len(sentence.words) for sentence in examples)
    inside = sum(s.end - s.start for sentence in examples for s in sentence.spans)
    (output,) = split["outputs"]
    assert (output["negatives"], output["positives"]) == (words - inside, inside)
    assert np.isclose(output["ratio"], (words - inside) / inside)
    tags += Counter({row["label"]: row["positives"] for row in output["labels"]})
# No sentence is lost on the way from the file, and no tag.
assert tags == Counter(tag for sentence in sentences for _, tag in sentence)

# %% own-data-and-loss-15
rng = np.random.default_rng(0)
many = rng.normal(size=(6, 3))
many[0] = 9, 0, 0  # very sure, and right
gold = np.array([0, 1, 2, 0, 1, -100])


def by_hand(z):
    log_p = z - np.log(np.exp(z).sum(-1, keepdims=True))
    return np.mean([max(-log_p[i, gold[i]] - 0.05, 0) for i in range(5)])


differences = np.zeros_like(many)
for index in np.ndindex(*many.shape):
    step = np.zeros_like(many)
    step[index] = 1e-5
    differences[index] = (by_hand(many + step) - by_hand(many - step)) / 2e-5


def value_of_many(z):
    return value(z, jnp.array(gold))


total, slope = jax.value_and_grad(value_of_many)(jnp.asarray(many, jnp.float32))
assert np.isclose(total, by_hand(many), atol=1e-6)
assert np.allclose(slope, differences, atol=1e-5)
assert (slope[0] == 0).all() and (slope[5] == 0).all()
steep = jax.grad(value_of_many)(jnp.asarray(1e4 * many, jnp.float32))
assert jnp.isfinite(steep).all()

# %% own-data-and-loss-17
recorded = json.loads(Path("runs/floored/experiment.json").read_text())["objective"]
assert recorded["type"] == "Floored" and np.isclose(recorded["floor"], 0.05)

# %% own-data-and-loss-19
assert np.isclose(f1, results["ce"].test["f1"], atol=1e-4)

# %% own-data-and-loss-from-python-2
assert {row.loss for row in comparison.rows} == {"ce", "focal", "dsc-smooth=0.01"}

# %% own-data-and-loss-from-python-4
assert again.test == first.result["test"]

# %% own-data-and-loss-from-python-6
assert "tags" not in batch and (batch["segment_ids"].max(-1) > 1).any()
