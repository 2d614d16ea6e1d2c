"""What the cells of the notebook of this name must have computed, by their ids."""

# %% micro-batches-06
assert np.mean(halves) > 1.2 * whole

z = jnp.log(p) - jnp.log1p(-p)
ours = losses.dice(z, jnp.array(labels), class_axis=None, smooth=1.0)
assert np.isclose(ours, whole, atol=1e-6)

# %% micro-batches-08
assert np.abs(errors[:, 0]).max() < 1e-5
assert off[-1] > off[3] > off[1] > 0
assert errors.mean(0)[-1] < 0
assert cosines.mean(0)[-1] < cosines.mean(0)[3] < 1 - 1e-6

# %% micro-batches-11
assert np.isclose(right, np.mean(by_hand), atol=1e-5)
assert abs(mean_of_means - right) > 0.01

# %% micro-batches-13
p = np.asarray(jax.nn.sigmoid(logits), float)
assert np.isclose(added, dice_by_hand(p, np.asarray(labels)), atol=1e-5)

# %% micro-batches-16
for exact, averaged in errors.values():
    assert exact < 1e-5 and averaged > 0.01
