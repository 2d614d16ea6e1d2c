"""The columns of GLUE's files, and of QQP in the split of Wang et al. (2017)."""

TSV = {"separator": "\t", "quoted": False}
LABELS = TSV | {"names": ("0", "1")}
MRPC = LABELS | {"first": "#1 String", "second": "#2 String", "label": "Quality"}
QQP = LABELS | {"first": 1, "second": 2, "label": 0, "id": 3}
GLUE_QQP = LABELS | {
    "first": "question1",
    "second": "question2",
    "label": "is_duplicate",
    "id": "id",
}
SST2 = LABELS | {"first": "sentence", "label": "label"}
