"""What the cells of the notebook of this name must have computed, by their ids."""

# %% imbalance-07
for ratio in RATIOS:
    w, b, _, recall, f1 = found[ratio, "cross-entropy"]
    assert abs(w - 2) < 0.05 and abs(b - (-2 - np.log(ratio))) < 0.05
    assert abs(recall - norm.sf(1 + np.log(ratio) / 2 - 2)) < 0.01

    w, b, precision, recall, _ = found[ratio, "class weights"]
    assert abs(-b / w - 1) < 0.05 and recall > 0.8
    if ratio == 100:
        assert precision < 0.1

    grid = np.linspace(-2, 6, 4001)
    best = true_f1(grid, ratio).max()
    assert found[ratio, "dice"][-1] > best - 0.01
    if ratio > 1:
        assert found[ratio, "dice"][-1] > f1
assert found[100, "cross-entropy"][3] < 0.1

# %% imbalance-11
for ratio, (_, f1) in figure_lines.items():
    x, labels = bells(ratio)
    w, b = found[ratio, "cross-entropy"][:2]
    p = 1 / (1 + np.exp(-(w * x + b)))
    # Lipton's threshold is half of the best F1.
    assert scores(p > f1.max() / 2, labels)[2] > f1.max() - 0.005
    assert abs(f1.max() - found[ratio, "dice"][-1]) < 0.015

# %% imbalance-13
for ratio, (actual, accuracy, f1) in counted.items():
    assert abs(actual / ratio - 1) < 0.15
    assert np.isclose(accuracy, actual / (1 + actual)) and f1 == 0

# %% imbalance-15
assert abs(ce - (1 - inside.mean())) < 1e-3
# Dice by hand: L = 1 - 2I / S with I = k/2, S = n/2 + k. A positive pulls with
# 2/S - 2I/S^2, a negative with 2I/S^2, both times the same slope of the sigmoid.
n, k = len(inside), inside.sum()
total = n / 2 + k
positive, negative = 2 / total - k / total**2, k / total**2
by_hand = (n - k) * negative / ((n - k) * negative + k * positive)
assert abs(of_set - by_hand) < 1e-3 and of_set < ce / 2 + 0.1
