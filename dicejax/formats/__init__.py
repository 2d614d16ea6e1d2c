"""Sources of examples: one dataclass per kind of data set, each with `load()`.

docs/tasks.md lists their files, and docs/own-data.md the layouts of each.
"""

from dicejax.formats.conll import ConllFiles, WordLabelFiles
from dicejax.formats.conllu import ConlluFiles
from dicejax.formats.json_sentences import JsonSentences
from dicejax.formats.labelled import TextFiles
from dicejax.formats.source import FileSource
from dicejax.formats.squad import SquadFiles
from dicejax.formats.tfds import TensorflowDataset

__all__ = [
    "ConllFiles",
    "ConlluFiles",
    "FileSource",
    "JsonSentences",
    "SquadFiles",
    "TensorflowDataset",
    "TextFiles",
    "WordLabelFiles",
]
