"""Sources of examples: one dataclass per kind of data set, each with `load()`.

docs/tasks.md lists their files, and docs/own-data.md the layouts of each.
"""

from dicejax.formats.conll import ConllFiles
from dicejax.formats.json_sentences import JsonSentences
from dicejax.formats.labelled import TextFiles
from dicejax.formats.source import FileSource
from dicejax.formats.squad import SquadFiles
from dicejax.formats.tfds import TensorflowDataset

__all__ = [
    "ConllFiles",
    "FileSource",
    "JsonSentences",
    "SquadFiles",
    "TensorflowDataset",
    "TextFiles",
]
