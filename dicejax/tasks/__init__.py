"""Tasks: examples to labels, predictions to scores; `docs/tasks.md` has their table."""

from dicejax.tasks.classification import Classification
from dicejax.tasks.joint_tagging import JointTagging
from dicejax.tasks.machine_reading import MachineReading
from dicejax.tasks.multi_label import MultiLabelClassification
from dicejax.tasks.question_answering import QuestionAnswering
from dicejax.tasks.tagging import Tagging, WordTagging
from dicejax.tasks.task import Item, Predicted, Prediction, Target, Task
from dicejax.tasks.two_pointers import TwoPointerNER

__all__ = [
    "Classification",
    "Item",
    "JointTagging",
    "MachineReading",
    "MultiLabelClassification",
    "Predicted",
    "Prediction",
    "QuestionAnswering",
    "Tagging",
    "Target",
    "Task",
    "TwoPointerNER",
    "WordTagging",
]
