"""Tasks: examples to labels, predictions to scores."""

from dicejax.tasks.tagging import Tagging
from dicejax.tasks.task import Item, Predicted, Target, Task

__all__ = ["Item", "Predicted", "Tagging", "Target", "Task"]
