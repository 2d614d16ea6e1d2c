"""Sources of examples: one dataclass per kind of data set, each with `load()`.

| source | files | examples |
| --- | --- | --- |
| `ConllFiles` | columns with tags of spans | `Sentence` |
| `WordLabelFiles` | columns with a label per word | `TaggedWords` |
| `ConlluFiles` | CoNLL-U | `TaggedWords` |
| `SquadFiles` | SQuAD v1.1, v2.0 and Quoref JSON | `ReadingExample` |
| `TabSeparatedFiles` | tab-separated: a text or a pair and a class | `LabelledText` |
| `CsvFiles` | CSV with any separator: a text or a pair and a class | `LabelledText` |
| `CsvMultiLabelTexts` | CSV or TSV: a text or a pair and labels | `MultiLabelText` |
| `LabelFirstFiles` | a label and a sentence per line: SST-2, SST-5 | `LabelledText` |
| `FastTextFiles` | `__label__NAME` before a text | either of these |
| `JsonTexts` | JSON lines: a text or a pair and a class | `LabelledText` |
| `JsonMultiLabelTexts` | JSON lines: a text or a pair and labels | `MultiLabelText` |
| `JsonSentences` | JSON lines: words and tags, or a text and entities | `Sentence` |
| `TensorflowDataset` | prepared sets of tensorflow-datasets | any of these |

Sources of JSON lines and `SquadFiles` also read Parquet, Arrow and folders that
`datasets` saved, see `tables`; `JsonSentences` also folders of brat, see
`brat`.
"""

from dicejax.formats.classification import (
    CsvFiles,
    CsvMultiLabelTexts,
    TabSeparatedFiles,
)
from dicejax.formats.conll import ConllFiles, WordLabelFiles
from dicejax.formats.conllu import ConlluFiles
from dicejax.formats.json_sentences import JsonSentences
from dicejax.formats.json_texts import JsonMultiLabelTexts, JsonTexts
from dicejax.formats.label_first import FastTextFiles, LabelFirstFiles
from dicejax.formats.source import FileSource
from dicejax.formats.squad import SquadFiles
from dicejax.formats.tfds import TensorflowDataset

__all__ = [
    "ConllFiles",
    "ConlluFiles",
    "CsvFiles",
    "CsvMultiLabelTexts",
    "FastTextFiles",
    "FileSource",
    "JsonMultiLabelTexts",
    "JsonSentences",
    "JsonTexts",
    "LabelFirstFiles",
    "SquadFiles",
    "TabSeparatedFiles",
    "TensorflowDataset",
    "WordLabelFiles",
]
