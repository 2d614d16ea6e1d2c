"""Text of small files, written without the package."""

import csv
import io
import json


def csv_text(rows, separator=",", end="\n"):
    """Return rows as the csv module writes them."""
    written = io.StringIO()
    csv.writer(written, delimiter=separator, lineterminator=end).writerows(rows)
    return written.getvalue()


def json_lines(records):
    """Return a record on each line."""
    return "".join(f"{json.dumps(record)}\n" for record in records)


def json_records(content):
    """Return the records of a list in JSON, or of JSON lines."""
    if content.startswith("[{"):
        return json.loads(content)
    return [json.loads(line) for line in content.splitlines()]
