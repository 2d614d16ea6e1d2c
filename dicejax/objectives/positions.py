"""Cross-entropy over the positions of a sequence."""

from __future__ import annotations

from typing import ClassVar

from dicejax.losses.declaration import REGISTRY, Declaration
from dicejax.objectives.loss_objective import LossObjective
from dicejax.objectives.objective import objective


@objective
class PositionCrossEntropy(LossObjective):
    """Cross-entropy of a softmax over the positions of a start, or of an end.

    The usual loss of question answering, and the baseline of the paper's Table 5. With
    it a task whose outputs are positive or negative at each token takes their logits
    for a softmax over the tokens of each window, [CLS] for no answer, and so decodes
    them; network and initial weights are the same.

    Args:
      output: output whose logits and labels the loss reads; None for all outputs of the
        task.
    """

    short_name: ClassVar[str] = "position_ce"
    declaration: ClassVar[Declaration] = REGISTRY["ce"]
    reads_positions: ClassVar[bool] = True
