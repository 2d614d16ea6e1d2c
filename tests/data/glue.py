"""The columns of GLUE's files, and of QQP in the split of Wang et al. (2017)."""

from dicejax.data.readers.classification import TextColumns

MRPC = TextColumns(
    first="#1 String", second="#2 String", label="Quality", labels=("0", "1")
)
QQP = TextColumns(first=1, second=2, label=0, id=3, labels=("0", "1"))
GLUE_QQP = TextColumns(
    first="question1",
    second="question2",
    label="is_duplicate",
    id="id",
    labels=("0", "1"),
)
SST2 = TextColumns(first="sentence", label="label", labels=("0", "1"))
