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
| `SyntheticNER` | none: generated sentences | `Sentence` |
| `SyntheticLabels` | none: generated texts with labels | `MultiLabelText` |

Sources of JSON lines and `SquadFiles` also read Parquet, Arrow and folders that
`datasets` saved, see `readers.tables`; `JsonSentences` also folders of brat, see
`readers.brat`.
"""

from dicejax.data.sources.files import (
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
from dicejax.data.sources.source import Corpus, FileSource, Source
from dicejax.data.sources.synthetic import SyntheticNER
from dicejax.data.sources.synthetic_labels import SyntheticLabels

__all__ = [
    "ConllFiles",
    "ConlluFiles",
    "Corpus",
    "CsvFiles",
    "FileSource",
    "JsonMultiLabelTexts",
    "JsonSentences",
    "JsonTexts",
    "LabelFirstFiles",
    "Source",
    "SquadFiles",
    "SyntheticLabels",
    "SyntheticNER",
    "TabSeparatedFiles",
    "TensorflowDataset",
    "WordLabelFiles",
]
