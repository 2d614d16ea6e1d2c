"""Counts of tags, and scores in the form of seqeval's classification report."""

from dicejax.metrics.spans import count, decode_tags


def count_tags(gold, predicted, scheme):
    """Count the spans of tags."""
    return count(*decode_tags(gold, predicted, scheme))


def as_report(result):
    """Return the rows of each type, of all together and of their mean."""
    rows = {**result.per_type, "micro avg": result, "macro avg": result.macro}
    return {
        name: {
            "precision": row.precision,
            "recall": row.recall,
            "f1-score": row.f1,
            "support": row.support,
        }
        for name, row in rows.items()
    }
