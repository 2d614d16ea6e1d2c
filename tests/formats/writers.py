"""Text of small files, written without the package."""

import csv
import io


def csv_text(rows, separator=",", end="\n"):
    """Return rows as the csv module writes them."""
    written = io.StringIO()
    csv.writer(written, delimiter=separator, lineterminator=end).writerows(rows)
    return written.getvalue()
