"""What the cells of the notebook of this name must have computed, by their ids."""

# %% gradient-density-05
import jax

from dicejax.mesh import MeshShape

setup = prepare(experiment, warn=lambda text: None)
mesh = MeshShape().make(jax.local_devices())
first = setup.batches(mesh)[0].arrays
params = setup.initial_state(mesh, steps=1).params
logits = np.asarray(jax.jit(setup.network.apply)(params, first)["tags"], float)
labels = np.asarray(first["tags"])
where, gold = labels >= 0, np.where(labels >= 0, labels, 0)
p = np.exp(logits - logits.max(-1, keepdims=True))
p /= p.sum(-1, keepdims=True)
wrong = 1 - np.take_along_axis(p, gold[..., None], -1)[..., 0]
pull = np.linalg.norm(p - np.eye(p.shape[-1])[gold], axis=-1)

classes = range(p.shape[-1])
count_by_hand = [(where & (gold == c)).sum() for c in classes]
pull_by_hand = [pull[where & (gold == c)].sum() for c in classes]
tolerance = 1e-4 if precision == "float32" else 2e-2
assert np.array_equal(ce.sums["count"][0], count_by_hand)
assert np.allclose(ce.sums["gradient_norm"][0], pull_by_hand, rtol=tolerance)
hard = (where & (wrong >= 0.5)).sum()
assert abs(ce.sums["hard"][0].sum() - hard) <= tolerance * where.sum()

# %% gradient-density-09
edges = np.linspace(0, 1, ce.sums["hardness"].shape[-1] + 1)
words, pulled = (ce.sums[key].sum(axis=(0, 1)) for key in ("hardness", "hardness_norm"))
assert (pulled >= (1 - tolerance) * edges[:-1] * words).all()
assert (pulled <= (1 + tolerance) * np.sqrt(2) * edges[1:] * words).all()
assert words.sum() == ce.sums["count"].sum()

# %% gradient-density-ghm-1
from dicejax import losses

of_words = np.repeat(wrong, words.astype(int))
values, _ = losses.ghm(
    np.log(1 / of_words - 1),
    np.ones(len(of_words), int),
    losses.ghm_state(len(words)),
    class_axis=None,
    momentum=0.0,
)
found_weights = np.asarray(values) / -np.log1p(-of_words)
assert np.allclose(found_weights, np.repeat(weights, words.astype(int)), rtol=1e-4)
assert (words * weights)[filled].std() < 1e-6 * words.sum()  # all bins alike
easy = wrong < 0.1
assert after[easy].sum() / after.sum() < words[easy].sum() / words.sum()

# %% gradient-density-13
in_order = list(share.values())
assert in_order[0] > in_order[1] > in_order[2]

# %% gradient-density-17
shares = [
    1 - run.sums["gradient_norm"][0, outside] / run.sums["gradient_norm"][0].sum()
    for run in (ce, dsc)
]
assert shares[1] > shares[0]

# %% gradient-density-19
assert all(np.abs(row["logits"]).max() < 1 + 1e-5 for row in found)
assert {row["loss"] for row in found} == set(asked)
