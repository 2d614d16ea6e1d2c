"""Losses as a PyTorch loop over the classes, to measure against.

Written from the formulas in the way published code goes about them: take the column of
a class as a problem of its own, mask it by a product, reduce it, stack the results. GHM
loops over its bins instead. Names and keywords are those of `dicejax.losses`.

Every function takes logits [N, C], labels ([N] class numbers, or [N, C] of 0 and 1 for
sigmoids) and a mask [N] of 0 and 1, and returns the mean that it is measured by, over
all classes and, where a loss has one value per element, over all N of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional


def columns(logits: Tensor, labels: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Probabilities and 0/1 targets of each class in turn, by softmax."""
    probabilities = torch.softmax(logits, dim=1)
    for c in range(logits.shape[1]):
        yield probabilities[:, c], (labels == c).float()


def sums(p: Tensor, y: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Intersection, predicted and actual of one class."""
    p, y = p * mask, y * mask
    return (p * y).sum(), p.sum(), y.sum()


def dice(logits, labels, mask, *, smooth=1.0, squared=False):
    """1 - (2 I + s) / (P + Y + s)."""
    losses = []
    for p, y in columns(logits, labels):
        p, y = p * mask, y * mask
        below = (p * p).sum() + (y * y).sum() if squared else p.sum() + y.sum()
        losses.append(1 - (2 * (p * y).sum() + smooth) / (below + smooth))
    return torch.stack(losses).mean()


def log_cosh_dice(logits, labels, mask, *, smooth=1.0):
    """Log cosh of the Dice loss of each class."""
    losses = []
    for p, y in columns(logits, labels):
        intersection, predicted, actual = sums(p, y, mask)
        loss = 1 - (2 * intersection + smooth) / (predicted + actual + smooth)
        losses.append(torch.log(torch.cosh(loss)))
    return torch.stack(losses).mean()


def dice_semimetric(logits, labels, mask, *, smooth=1.0, variant="dml1"):
    """The Dice loss with the L1 norm of the difference: by I, or by 2 I below too."""
    losses = []
    for p, y in columns(logits, labels):
        p, y = p * mask, y * mask
        difference = (p - y).abs().sum()
        if variant == "dml1":
            below = p.sum() + y.sum()
            above = below - difference
        else:
            above = 2 * (p * y).sum()
            below = above + difference
        losses.append(1 - (above + smooth) / (below + smooth))
    return torch.stack(losses).mean()


def generalized_dice(logits, labels, mask, *, smooth=1e-5):
    """1 - (2 sum w I + s) / (sum w (P + Y) + s), w = 1 / Y^2; 0 if absent."""
    above, below = [], []
    for p, y in columns(logits, labels):
        intersection, predicted, actual = sums(p, y, mask)
        weight = (actual > 0) / actual.clamp(min=1) ** 2
        above.append(weight * intersection)
        below.append(weight * (predicted + actual))
    above, below = torch.stack(above).sum(), torch.stack(below).sum()
    return 1 - (2 * above + smooth) / (below + smooth)


def tversky(logits, labels, mask, *, alpha=0.5, beta=0.5, smooth=1.0, gamma=1.0):
    """(1 - (TP + s) / (TP + alpha FP + beta FN + s)) ^ (1 / gamma)."""
    losses = []
    for p, y in columns(logits, labels):
        true_positives = (p * y * mask).sum()
        false_positives = (p * (1 - y) * mask).sum()
        false_negatives = ((1 - p) * y * mask).sum()
        below = true_positives + alpha * false_positives + beta * false_negatives
        losses.append(1 - (true_positives + smooth) / (below + smooth))
    losses = torch.stack(losses)
    return (losses if gamma == 1 else losses ** (1 / gamma)).mean()


def focal_tversky(logits, labels, mask, *, gamma=4 / 3, **settings):
    """`tversky` to the power of 1 / gamma, class by class."""
    return tversky(logits, labels, mask, gamma=gamma, **settings)


def jaccard(logits, labels, mask, *, smooth=1.0):
    """1 - (I + s) / (P + Y - I + s)."""
    losses = []
    for p, y in columns(logits, labels):
        intersection, predicted, actual = sums(p, y, mask)
        union = predicted + actual - intersection
        losses.append(1 - (intersection + smooth) / (union + smooth))
    return torch.stack(losses).mean()


def soft_f1(logits, labels, mask, *, beta=1.0):
    """1 - F_beta of the soft counts."""
    losses = []
    for p, y in columns(logits, labels):
        intersection, predicted, actual = sums(p, y, mask)
        above = (1 + beta**2) * intersection
        losses.append(1 - above / (beta**2 * actual + predicted))
    return torch.stack(losses).mean()


def sigmoid_f1(logits, labels, mask, *, slope=1.0, offset=0.0):
    """1 - F1 of the soft counts of sigmoid(slope (z + offset))."""
    probabilities = torch.sigmoid(slope * (logits + offset))
    losses = []
    for c in range(logits.shape[1]):
        counts = sums(probabilities[:, c], labels[:, c], mask)
        intersection, predicted, actual = counts
        losses.append(1 - 2 * intersection / (predicted + actual))
    return torch.stack(losses).mean()


def self_adjusting_dice(
    logits, labels, mask, *, axis=None, alpha=0.01, smooth=1.0, squared=True
):
    """The Dice loss of f = (1 - p)^alpha p, of each element or of the batch.

    Published code reshapes a column to [N, 1] and sums the last axis, for one element,
    or to [1, N] in effect, for the batch.
    """
    losses = []
    for p, y in columns(logits, labels):
        shape = (1, -1) if axis is None else (-1, 1)
        p, y = (p * mask).reshape(shape), (y * mask).reshape(shape)
        f = (1 - p) ** alpha * p
        above = 2 * (f * y).sum(-1) + smooth
        below = (f * f).sum(-1) + (y * y).sum(-1) if squared else f.sum(-1) + y.sum(-1)
        losses.append(1 - above / (below + smooth))
    return torch.stack(losses).mean()


def unified_focal(
    logits, labels, mask, *, weight=0.5, delta=0.6, gamma=0.5, smooth=1e-6
):
    """The asymmetric form; class 0 is the background."""
    entropies, losses = [], []
    for c, (p, y) in enumerate(columns(logits, labels)):
        entropy = -y * mask * torch.log(p)
        entropy = (
            (1 - delta) * (1 - p) ** gamma * entropy if c == 0 else delta * entropy
        )
        entropies.append(entropy.sum())
        intersection, predicted, actual = sums(p, y, mask)
        missed, wrong = actual - intersection, predicted - intersection
        below = intersection + delta * missed + (1 - delta) * wrong
        loss = 1 - (intersection + smooth) / (below + smooth)
        losses.append(loss if c == 0 else loss ** (1 - gamma))
    entropy = torch.stack(entropies).sum() / mask.sum()
    return weight * entropy + (1 - weight) * torch.stack(losses).mean()


def lovasz_softmax(logits, labels, mask):
    """Errors in falling order times the steps of the Jaccard loss."""
    valid = mask > 0
    logits, labels = logits[valid], labels[valid]
    losses = []
    for p, y in columns(logits, labels):
        if y.sum() == 0:
            losses.append(0 * p.sum())
            continue
        errors, order = torch.sort((y - p).abs(), descending=True)
        y = y[order]
        jaccard_loss = 1 - (y.sum() - y.cumsum(0)) / (y.sum() + (1 - y).cumsum(0))
        steps = torch.cat([jaccard_loss[:1], jaccard_loss[1:] - jaccard_loss[:-1]])
        losses.append(torch.dot(errors, steps))
    return torch.stack(losses).mean()


def focal(logits, labels, mask, *, gamma=2.0, multi_label=True):
    """The binary focal loss of each class."""
    assert multi_label
    losses = []
    for c in range(logits.shape[1]):
        entropy = functional.binary_cross_entropy_with_logits(
            logits[:, c], labels[:, c], reduction="none"
        )
        p_gold = torch.exp(-entropy)
        losses.append(((1 - p_gold) ** gamma * entropy * mask).mean())
    return torch.stack(losses).mean()


def asymmetric(
    logits, labels, mask, *, gamma_positive=1.0, gamma_negative=4.0, margin=0.05
):
    """Focal for both outcomes, the probability of the negatives shifted."""
    losses = []
    for c in range(logits.shape[1]):
        y, p = labels[:, c], torch.sigmoid(logits[:, c])
        shifted = (p - margin).clamp(min=0)
        positive = y * (1 - p) ** gamma_positive * torch.log(p)
        negative = (1 - y) * shifted**gamma_negative * torch.log(1 - shifted)
        losses.append((-(positive + negative) * mask).mean())
    return torch.stack(losses).mean()


def distribution_balanced(
    logits,
    labels,
    mask,
    *,
    class_counts,
    alpha=0.1,
    beta=10.0,
    mu=0.3,
    kappa=0.05,
    scale=2.0,
):
    """Rebalanced weights times a binary cross entropy, tolerant of negatives."""
    counts = torch.as_tensor(class_counts, dtype=logits.dtype)
    positives, total = counts[:, 1], counts.sum(dim=1).max()
    repeated = (labels / positives).sum(dim=1)
    losses = []
    for c in range(logits.shape[1]):
        rate = 1 / (positives[c] * repeated)
        weight = alpha + torch.sigmoid(beta * (rate - mu))
        margin = kappa * torch.log(total / positives[c] - 1)
        z, y = logits[:, c] - margin, labels[:, c]
        loss = y * functional.softplus(-z)
        loss = loss + (1 - y) * functional.softplus(scale * z) / scale
        losses.append((weight * loss * mask).mean())
    return torch.stack(losses).mean()


def ghm(logits, labels, mask, *, multi_label=True, momentum=0.75, bins=10):
    """Weights by the density of gradient norms: the first step, bias-corrected."""
    assert multi_label
    norms = (torch.sigmoid(logits.detach()) - labels).abs()
    valid = (mask[:, None] > 0).expand_as(norms)
    edges = torch.arange(bins + 1) / bins
    edges[-1] += 1e-6
    weights, total, filled = torch.zeros_like(norms), 0.0, 0
    for b in range(bins):
        inside = (norms >= edges[b]) & (norms < edges[b + 1]) & valid
        count = inside.sum().item()
        if count > 0:
            average = (1 - momentum) * count / (1 - momentum)  # from an average of 0
            weights[inside] = 1 / average
            total, filled = total + average, filled + 1
    weights = weights * total / filled
    return functional.binary_cross_entropy_with_logits(logits, labels, weights)
