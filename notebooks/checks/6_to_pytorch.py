"""What the cells of the notebook of this name must have computed, by their ids."""

# %% to-pytorch-08
assert name == "BertForTokenClassification"

# %% to-pytorch-09
assert type(model).__name__ == name
assert tuple(model.config.id2label.values()) == run.labels()

# %% to-pytorch-11
assert ours.shape == theirs.shape
assert np.abs(ours - theirs).max() < 1e-4

# %% to-pytorch-13
assert len(places) == len(words)
assert from_torch == here

# %% to-pytorch-15
assert weights.new_heads == ()
assert before.keys() == after.keys()
assert all(np.array_equal(before[one], after[one]) for one in before)

# %% to-pytorch-17
assert again.weights.new_heads == ()
assert np.array_equal(changed[bias_name], bias)
assert np.allclose(bias - before[bias_name], 1.0, atol=1e-6)
