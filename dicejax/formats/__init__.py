"""Sources of examples: one dataclass per kind of data set, each with `load()`.

| source | files | examples |
| --- | --- | --- |
| `ConllFiles` | columns with tags of spans | `Sentence` |
| `WordLabelFiles` | columns with a label per word | `TaggedWords` |
| `ConlluFiles` | CoNLL-U | `TaggedWords` |
| `SquadFiles` | SQuAD v1.1, v2.0 and Quoref JSON | `ReadingExample` |
| `TabSeparatedFiles` | tab-separated: a text or a pair and a class | `LabelledText` |
| `CsvFiles` | CSV with any separator: a text or a pair and a class | `LabelledText` |
| `LabelFirstFiles` | a label and a sentence per line: SST-2, SST-5 | `LabelledText` |
| `JsonTexts` | JSON lines: a text or a pair and a class | `LabelledText` |
| `JsonMultiLabelTexts` | JSON lines: a text or a pair and labels | `MultiLabelText` |
| `JsonSentences` | JSON lines: words and tags, or a text and entities | `Sentence` |
| `TensorflowDataset` | prepared sets of tensorflow-datasets | any of these |

Sources of JSON lines and `SquadFiles` also read Parquet, Arrow and folders that
`datasets` saved, see `tables`; `JsonSentences` also folders of brat, see
`brat`.
"""

from dicejax.formats.source import FileSource
from dicejax.formats.sources import (
    ConllFiles,
    ConlluFiles,
    CsvFiles,
    JsonMultiLabelTexts,
    JsonSentences,
    JsonTexts,
    LabelFirstFiles,
    SquadFiles,
    TabSeparatedFiles,
    TensorflowDataset,
    WordLabelFiles,
)

__all__ = [
    "ConllFiles",
    "ConlluFiles",
    "CsvFiles",
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
