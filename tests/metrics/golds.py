"""Gold answers of files in SQuAD's form, read by nothing of the package."""

import json


def read_golds(path):
    """The answers of each question, by its id."""
    return {
        question["id"]: [answer["text"] for answer in question["answers"]]
        for article in json.loads(path.read_text("utf-8"))["data"]
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    }
