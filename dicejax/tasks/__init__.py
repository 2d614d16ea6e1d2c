"""Tasks: examples to labels, predictions to scores.

| task | examples | the network gives |
| --- | --- | --- |
| `Tagging` | `Sentence` | a tag per word |
| `WordTagging` | `TaggedWords` | a label per word |
| `JointTagging` | `Sentence` of characters, `TaggedWords` | a tag per character |
| `TwoPointerNER` | `Sentence` | starts and ends of each type |
| `MachineReading` | `Sentence` | starts, ends and matches for a query per type |
| `QuestionAnswering` | `ReadingExample` | start and end of an answer |
| `Classification` | `LabelledText` | a class per text or pair |
| `MultiLabelClassification` | `MultiLabelText` | any number of labels per text |
"""

from dicejax.tasks.classification import Classification
from dicejax.tasks.machine_reading import MachineReading
from dicejax.tasks.multi_label import MultiLabelClassification
from dicejax.tasks.question_answering import QuestionAnswering
from dicejax.tasks.tagging import JointTagging, Tagging, WordTagging
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
