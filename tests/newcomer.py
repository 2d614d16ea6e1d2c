"""A small CoNLL corpus with made-up names."""

import random
from pathlib import Path

STARTS, ENDS = ("An", "Ber", "Cos", "Lin", "Mar", "Os"), ("na", "to", "ra", "lo", "ka")
PLACES = ("New York City", "Cape Town", "Hong Kong")
FIRMS = ("Bank", "Steel", "Foods")
FRAMES = (
    "{PER} lives in {LOC} .",
    "Yesterday {PER} met a friend near the old station in {LOC} and went home late .",
    "The office of {ORG} was closed for most of the week because of the heavy snow .",
    "{ORG} hired {PER} after a long search that nobody there wants to repeat soon .",
    "It rained all day , so that nobody went out and nothing was done in the garden .",
    "Most of the people who were asked had never heard of the firm or of its owner .",
)


def sentence(draw: random.Random) -> list[tuple[str, str]]:
    """Return words with their BIO tags."""

    def name() -> str:
        return draw.choice(STARTS) + draw.choice(ENDS)

    names = {
        "PER": lambda: f"{name()} {name()}" if draw.random() < 0.5 else name(),
        "LOC": lambda: draw.choice(PLACES) if draw.random() < 0.5 else name(),
        "ORG": lambda: f"{name()} {draw.choice(FIRMS)}",
    }
    tagged = []
    for word in draw.choice(FRAMES).split():
        kind = word.strip("{}")
        if kind not in names:
            tagged.append((word, "O"))
            continue
        first, *rest = names[kind]().split()
        tagged += [(first, f"B-{kind}"), *((word, f"I-{kind}") for word in rest)]
    return tagged


def write(file: Path, sentences: int) -> None:
    """Write a CoNLL file: a word and its tag on each line, then an empty line."""
    draw = random.Random(0)
    lines = []
    for _ in range(sentences):
        lines += [f"{word} {tag}" for word, tag in sentence(draw)] + [""]
    file.write_text("\n".join(lines) + "\n")
