r"""Readers, one per file format.

| file             | reads                                          | gives            |
| ---------------- | ---------------------------------------------- | ---------------- |
| `conll`          | columns with tags of spans (BIO, BMES, ...)    | `Sentence`       |
|                  | columns with a label per word: `read_words`    | `TaggedWords`    |
| `conllu`         | CoNLL-U                                        | `TaggedWords`    |
| `squad`          | SQuAD v1.1, v2.0 and Quoref JSON               | `ReadingExample` |
| `classification` | columns of texts, separated by any character   | `LabelledText`   |
|                  | a label and a sentence: `read_label_first`     | `LabelledText`   |
| `json_lines`     | an object per line, texts: `read_texts`        | `LabelledText`   |
|                  | texts with labels: `read_multi_label`          | `MultiLabelText` |
|                  | words with tags, texts with entities           | `Sentence`       |
| `brat`           | brat's .txt and .ann files, as records         | dicts            |
| `tables`         | Arrow and Parquet of `datasets`, as records    | dicts            |
| `tfds`           | prepared sets of tensorflow-datasets           | any of these     |

Their arguments are the fields of the source, see `dicejax.data.sources`, and `path`,
local or anything etils.epath opens (gs://, s3://), of UTF-8 text with or without a byte
order mark, whose lines end in `\n` or `\r\n`; a name in `.gz` is decompressed. They
return at least one example, in the order of the file, and raise `InputError` with file
and line where the file is missing, empty, no regular file, not UTF-8 text or malformed.
`on_error`, such as a `skipping.Skipped`, is called with the error of each malformed
example, which is then skipped; None raises the first.
"""
