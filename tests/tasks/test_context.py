"""Context of neighbouring sentences: read, not labelled, not scored."""

import dataclasses
import itertools

import numpy as np
import pytest

from dicejax import config
from dicejax.data.examples import Sentence, Span, by_character
from dicejax.data.tokenize import learn_wordpiece
from dicejax.errors import InputError
from dicejax.formats import ConllFiles
from dicejax.formats import texts as text_files
from dicejax.tasks import JointTagging, MachineReading, Tagging
from dicejax.tasks.task import IGNORED
from dicejax.training import new_texts

from ..small_project import EXPERIMENT

FILE = """-DOCSTART- O

Ada B-PER
met O

Bo B-PER
in O
Oslo B-LOC

-DOCSTART- O

York B-LOC

Anna B-PER
sang O
"""
WORDS = ["Ada", "met", "Bo", "in", "Oslo", "York", "Anna", "sang"]


def sources(folder, context, **more):
    (folder / "train.txt").write_text(FILE)
    files = {"dir": str(folder), "dev": "train.txt", "test": "train.txt"}
    return ConllFiles(**files, context=context, **more).load().train


def test_neighbours_are_of_the_same_document_and_of_the_whole_file(tmp_path):
    """Against all rows of the file, walked one by one."""
    rows, document = [], 0
    for number, line in enumerate(FILE.splitlines(), start=1):
        document += line.startswith("-DOCSTART-")
        if line and not line.startswith("-DOCSTART-"):
            rows.append((number, document, line.split()[0]))
    for count in (1, 2, 99):
        for sentence in sources(tmp_path, count):
            lines = range(sentence.line, sentence.line + len(sentence.words))
            (local,) = {document for line, document, _ in rows if line in lines}
            near = [(line, word) for line, other, word in rows if other == local]
            before = [word for line, word in near if line < lines[0]]
            after = [word for line, word in near if line > lines[-1]]
            assert list(sentence.before) == before[-count:]
            assert list(sentence.after) == after[:count]
    # A sample has the neighbours that the file has, sampled or not.
    whole = {sentence.line: sentence for sentence in sources(tmp_path, 2)}
    (drawn,) = sources(tmp_path, 2, max_train=1)
    assert drawn == whole[drawn.line] and drawn.before + drawn.after
    assert all(not x.before + x.after for x in sources(tmp_path, 0))
    with pytest.raises(InputError, match=r"context is -1; want 0 .*--data\.context"):
        sources(tmp_path, -1)


def test_words_with_labels_have_context_too(tmp_path):
    (tmp_path / "train.txt").write_text(FILE)
    files = {"dir": str(tmp_path), "dev": "train.txt", "test": "train.txt"}
    words = ConllFiles(layout="labels", **files, context=2).load().train
    assert [(x.before, x.after) for x in words] == [
        ((), ("Bo", "in")),
        (("Ada", "met"), ()),
        ((), ("Anna", "sang")),
        (("York",), ()),
    ]
    assert by_character(words[3]).before == tuple("York")


def test_items_are_those_of_the_words_joined_by_hand_with_own_labels_alone():
    tokenizer = learn_wordpiece(WORDS * 3, 80)  # each word is a piece
    sentence = Sentence(
        ("Bo", "in", "Oslo"),
        (Span("PER", 0, 1), Span("LOC", 2, 3)),
        4,
        before=("York", "Ada", "met"),
        after=("Anna",),
    )
    task = Tagging()
    labels = task.label_names([sentence])
    (alone,) = task.encode(
        [Sentence(sentence.words, sentence.spans, 4)], tokenizer, labels, 32
    )
    gold = alone.arrays["tags"][1:-1].tolist()
    for length, left, right in ((9, 3, 1), (8, 2, 1), (7, 1, 1), (6, 0, 1), (5, 0, 0)):
        (item,) = task.encode([sentence], tokenizer, labels, length)
        words = [*sentence.before[3 - left :], *sentence.words, *sentence.after[:right]]
        ids = [tokenizer.token_to_id(word) for word in ["[CLS]", *words, "[SEP]"]]
        assert item.arrays["input_ids"].tolist() == ids and len(ids) == length
        expected = [IGNORED] * (1 + left) + gold + [IGNORED] * (right + 1)
        assert item.arrays["tags"].tolist() == expected
        tags = np.where(item.arrays["tags"] < 0, 1, item.arrays["tags"])
        outputs = {"tags": tags, "probability": np.ones(len(tags))}
        prediction = task.decode(sentence, [item], [outputs], labels)
        assert prediction.values == list(sentence.spans)
    counts = task.class_counts([item], labels)["tags"]
    assert counts.sum() == len(sentence.words)
    # A sentence that fills the row is read in windows, without its neighbours.
    cut, bare = (
        task.encode([each], tokenizer, labels, 4)
        for each in (sentence, Sentence(sentence.words, sentence.spans, 4))
    )
    for mine, other in itertools.zip_longest(cut, bare):
        for name, array in other.arrays.items():
            np.testing.assert_array_equal(mine.arrays[name], array)


@pytest.mark.parametrize(
    "task", [MachineReading(queries=(("PER", "who"),)), JointTagging()]
)
def test_tasks_that_read_no_context_refuse_it(task):
    sentence = Sentence(("Bo",), (), 1, before=("Ada",))
    with pytest.raises(
        InputError, match=r"reads no context.*leave out --data\.context"
    ):
        task.adapt([sentence])


def test_a_file_is_predicted_with_the_context_of_the_run(tmp_path):
    expected, path = sources(tmp_path, 3), str(tmp_path / "train.txt")
    source = ConllFiles(dir=str(tmp_path), context=3)
    (tmp_path / "small.py").write_text(EXPERIMENT.format(folder=str(tmp_path)))
    experiment = config.load(tmp_path / "small.py")
    texts = text_files.read(path, "conll", None, (), source)
    run = dataclasses.replace(experiment, data=source)
    ((_, examples),) = new_texts.parts(run, texts, path)
    around = [[(x.words, x.before, x.after) for x in xs] for xs in (examples, expected)]
    assert around[0] == around[1]
