"""Readers, one per file format.

| file             | reads                                          | gives            |
| ---------------- | ---------------------------------------------- | ---------------- |
| `conll`          | columns with tags of spans (BIO, BMES, ...)    | `Sentence`       |
| `words`          | columns with a label per word                  | `TaggedWords`    |
| `conllu`         | CoNLL-U                                        | `TaggedWords`    |
| `cluener`        | CLUENER2020's JSON lines                       | `Sentence`       |
| `bert_mrc`       | BERT-MRC's JSON                                | `SpanQuery`      |
| `squad`          | SQuAD v1.1, v2.0 and Quoref JSON               | `ReadingExample` |
| `classification` | tab-separated texts: MRPC, QQP, SST-2          | `LabelledText`   |
| `label_first`    | a label and a sentence per line: SST-2, SST-5  | `LabelledText`   |
| `tfds`           | prepared sets of tensorflow-datasets           | any of these     |

Each has `read(path, ...)`. The first bad example raises `InputError`, unless `on_error`
is given, which is told of each, such as a `skipping.Skipped`; the rest is then read.
"""
