"""Gold answers of SQuAD files, read without the package."""

import json


def read_golds(path):
    """Return the answers of each question, by its id."""
    return {
        question["id"]: [answer["text"] for answer in question["answers"]]
        for article in json.loads(path.read_text("utf-8"))["data"]
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    }
