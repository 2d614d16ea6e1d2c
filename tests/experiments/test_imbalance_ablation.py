"""The five data sets have their sizes; added examples differ by synonyms."""

import collections
import dataclasses
import re

import numpy as np
import pytest
from word_replacement import ImbalanceAblation, SynonymPairs

from dicejax.data.examples import LabelledText, MultiLabelText
from dicejax.errors import InputError

from ..data.processes import printed_by_processes

ADJECTIVES = ["useful", "large", "strange", "rare", "correct", "safe", "brave"]
NOUNS = ["kid", "car", "phone", "trip", "shop", "doctor", "lawyer", "bike"]
GROUPS = {word: {f"{word}ish", f"{word}like"} for word in ADJECTIVES + NOUNS}
GROUPS |= {"big": {"vast", "sizeable"}, "easy": {"simple"}, "good": {"fine"}}


@pytest.fixture(scope="module", autouse=True)
def pairs_file(tmp_path_factory):
    """Return a file with the synonyms above."""
    path = tmp_path_factory.mktemp("synonyms") / "pairs.tsv"
    rows = [f"{word}\t{other}" for word in GROUPS for other in sorted(GROUPS[word])]
    path.write_text("\n".join(rows))
    make.synonyms = SynonymPairs(path=str(path))
    return path


def pairs(positives: int, negatives: int) -> list[LabelledText]:
    """Return distinct pairs; one in ten cannot be varied."""
    labels = ["1"] * positives + ["0"] * negatives
    np.random.default_rng(1).shuffle(labels)
    examples = []
    for i, label in enumerate(labels):
        adjective, noun = ADJECTIVES[i % 7], NOUNS[i // 7 % 8]
        first = f"Is  the {adjective} {noun} no. {i} here, or there?"
        second = f"({noun.title()} {i}: {adjective.upper()}!)"
        if i % 10 == 0:
            first, second = f"iPhone {i}?", "Who are you?"
        examples.append(LabelledText(first, second, label, f"q{i}", i + 1))
    return examples


def make(variant, data, **kwargs):
    settings = {"synonyms": make.synonyms} | kwargs
    return ImbalanceAblation(variant=variant, **settings).make(data)


def counted(examples) -> tuple[int, int]:
    labels = collections.Counter(example.label for example in examples)
    return labels["1"], labels["0"]


DATA = pairs(40, 70)


@pytest.mark.parametrize(
    ("variant", "settings", "counts"),
    [
        ("original", {}, (40, 70)),
        ("+positive", {}, (70, 70)),
        ("+negative", {}, (40, 100)),
        ("-negative", {}, (40, 40)),
        ("+positive & +negative", {}, (51, 89)),
        ("+positive", {"size": 120}, (50, 70)),
        ("+positive", {"positive_share": 0.6}, (105, 70)),
        ("+negative", {"size": 130}, (40, 90)),
        ("+negative", {"positive_share": 0.21}, (40, 150)),
        ("-negative", {"size": 90}, (40, 50)),
        ("-negative", {"positive_share": 0.8}, (40, 10)),
        ("+positive & +negative", {"size": 200, "positive_share": 0.5}, (100, 100)),
        ("+positive & +negative", {"size": 120}, (44, 76)),
        ("+positive & +negative", {"positive_share": 0.4}, (56, 84)),
    ],
)
def test_each_data_set_has_its_counts(variant, settings, counts):
    made = make(variant, DATA, **settings)
    assert counted(made.examples) == counts
    assert made.positives == counts[0]
    assert made.removed == max(0, 70 - counts[1])
    added = made.positive.made, made.negative.made
    assert added == (counts[0] - 40, max(0, counts[1] - 70))


@pytest.mark.parametrize(
    ("variant", "size", "share"),
    [
        ("original", 363_871, 0.37),
        ("+positive", 458_477, 0.50),
        ("+negative", 458_477, None),  # the paper's 0.21 cannot be: see the module
        ("-negative", 269_165, 0.50),
        ("+positive & +negative", 458_477, 0.37),
    ],
)
def test_the_sizes_are_the_paper_s(variant, size, share):
    # 37% of 363,871 and what 458,477 leaves: rounded shares fix the counts to 0.1%.
    positives, negatives = 134_632, 229_239
    made = ImbalanceAblation(variant=variant).targets(positives, negatives)
    assert sum(made) == pytest.approx(size, rel=5e-4)
    if share:
        assert made[0] / sum(made) == pytest.approx(share, abs=5e-4)
    else:
        assert round(made[0] / sum(made), 2) == 0.29
        with_share = ImbalanceAblation(variant=variant, positive_share=0.21)
        counts = with_share.targets(positives, negatives)
        assert counts == (positives, 641_105 - positives)


@pytest.mark.parametrize("variant", ["+positive", "+negative", "+positive & +negative"])
def test_what_is_added_is_new_and_says_where_it_comes_from(variant):
    made = make(variant, DATA, size=180, replaced_share=1.0)
    added = made.examples[len(DATA) :]
    assert list(made.examples[: len(DATA)]) == DATA
    assert len({(e.first, e.second) for e in made.examples}) == len(made.examples)
    assert len({e.id for e in made.examples}) == len(made.examples)
    originals = {example.id: example for example in DATA}
    for example in added:
        original = originals[example.id.split("~")[0]]
        assert (example.label, example.line) == (original.label, original.line)
        # Which words, and in what case, is tested in test_word_replacement.py.
        texts = [f"{e.first} {e.second}" for e in (original, example)]
        old, new = (re.findall(r"\w+", text) for text in texts)
        changes = [both for both in zip(old, new, strict=True) if both[0] != both[1]]
        assert len(changes) == 4  # the adjective and the noun, twice each
        assert all(b.lower() in GROUPS[a.lower()] for a, b in changes)


def test_each_template_serves_once_before_any_serves_twice():
    added = make("+positive", DATA, size=70 + 36 + 50).examples[len(DATA) :]
    templates = collections.Counter(e.id.split("~")[0] for e in added)
    able = [e for e in DATA if e.label == "1" and not e.first.startswith("iPhone")]
    assert set(templates) <= {e.id for e in able}
    assert len(added) == 46
    assert max(templates.values()) == -(-46 // len(able))


def test_too_few_variants_are_reported(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("quick\tfast\nquick\tswift\nfast\tswift\n")
    synonyms = SynonymPairs(path=str(path))
    texts = [("quick?", "1"), ("No.", "1"), ("a", "0"), ("b", "0"), ("fast?", "1")]
    data = [LabelledText(t, None, y, str(i), i) for i, (t, y) in enumerate(texts)]
    made = make("+positive", data, size=12, synonyms=synonyms)
    # Of quick? and fast? only swift? is not there yet.
    assert [e.first for e in made.examples[5:]] == ["swift?"]
    assert made.examples[5].second is None
    assert dataclasses.astuple(made.positive) == (7, 1, 1, 2)
    line = "1 added of 7 wanted; nothing to replace in 1, nothing new left in 2"
    assert line in str(made)


def test_ids_stay_apart_even_where_one_looks_like_a_variant_s():
    data = [
        LabelledText("Is it easy?", None, "1", "7", 1),
        LabelledText("Is it rare?", None, "0", "7~1", 2),
        LabelledText("Is it big?", None, "0", "8", 3),
    ]
    assert make("+positive", data).examples[-1].id == "7~2"


def test_what_is_left_out_is_drawn_and_the_order_kept():
    made = [make("-negative", DATA, seed=seed).examples for seed in range(3)]
    for examples in made:
        assert [e for e in DATA if e in examples] == list(examples)
        assert {e for e in DATA if e.label == "1"} <= set(examples)
    assert len(set(made)) == 3
    # The same example twice is two examples.
    assert counted(make("-negative", [*DATA, *DATA]).examples) == (80, 80)


def test_a_larger_set_adds_the_same_positive_examples_first():
    few = make("+positive", DATA, size=160).examples[len(DATA) :]
    many = make("+positive & +negative", DATA, size=300, positive_share=0.4).examples
    assert counted(few) == (50, 0)
    assert many[len(DATA) :][:50] == few


def test_another_process_makes_the_same_and_another_seed_another(pairs_file):
    code = (
        "from dicejax.data.examples import LabelledText\n"
        "from word_replacement import ImbalanceAblation, SynonymPairs\n"
        f"pairs = SynonymPairs(path={str(pairs_file)!r})\n"
        "data = [LabelledText(f'Is my big film {i} easy and good?', None, str(i % 3 // "
        "2), str(i), i) for i in range(60)]\n"
        "made = ImbalanceAblation(variant='+positive & +negative', size=150, "
        "synonyms=pairs)\n"
        "print(made.make(data).examples)"
    )
    assert len(printed_by_processes(code)) == 1
    for variant in ("+positive", "-negative", "+positive & +negative"):
        assert make(variant, DATA, seed=4) != make(variant, DATA, seed=5)


def test_a_ratio_that_is_there_needs_neither_draws_nor_synonyms():
    data = pairs(30, 30)
    unusable = SynonymPairs(path="/nowhere/words.txt")
    for variant in ("original", "+positive", "-negative", "+positive & +negative"):
        made = make(variant, data, synonyms=unusable)
        assert list(made.examples) == data
        assert str(made) == "60 examples, 50.0% positive"
    with pytest.raises(InputError, match=r"/nowhere/words\.txt: no such file"):
        make("+negative", data, size=70, synonyms=unusable)


def test_several_classes_count_as_negative():
    texts = [(f"Big {label} {i}", label) for i, label in enumerate("cabab")]
    data = [LabelledText(t, None, y, str(i), i) for i, (t, y) in enumerate(texts)]
    made = make("+positive", data, positive="c")
    # Besides "Big c 0" there can be "Vast c 0" and "Sizeable c 0", no fourth.
    assert collections.Counter(e.label for e in made.examples)["c"] == 3
    assert dataclasses.astuple(made.positive) == (3, 2, 0, 1)


SEVERAL = MultiLabelText("a b", None, ("1",), "0", 1)
UNLABELLED = dataclasses.replace(DATA[3], label=None)


@pytest.mark.parametrize(
    ("variant", "data", "settings", "message"),
    [
        ("+positive", pairs(7, 3), {}, r"7 positive and 3 negative examples cannot "),
        ("-negative", pairs(7, 3), {}, r"cannot become 7 and 7; name the rarer label"),
        ("+negative", DATA, {"size": 100}, r"cannot become 40 and 60"),
        ("-negative", DATA, {"size": 30}, r"cannot become 40 and -10"),
        ("-negative", DATA, {"size": 40}, r"cannot become 40 and 0"),
        ("+positive & +negative", DATA, {"positive_share": 0.1}, "become 14 and 126"),
        ("original", pairs(0, 3), {}, "label '1', but the examples have '0'"),
        ("original", pairs(3, 0), {}, "examples have '1'; want it and another"),
        ("original", [], {}, "examples have none; want it and another"),
        ("original", [*DATA, UNLABELLED], {}, "q3 has no"),
        ("-negative", [SEVERAL], {}, "the data holds MultiLabelText; leave it out"),
    ],
)
def test_data_that_do_not_fit_are_refused(variant, data, settings, message):
    with pytest.raises(InputError, match=message) as caught:
        make(variant, data, **settings)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"variant": "+neg"}, "variant is '\\+neg'; want one of 'orig"),
        ({"variant": "original", "size": 3}, "original takes neither"),
        (
            {"variant": "+positive", "size": 3, "positive_share": 0.5},
            r"takes one of size and positive_share, not size 3 and positive_share 0.5",
        ),
        ({"variant": "+negative", "positive_share": 1.0}, "is 1.0;"),
        ({"variant": "+negative", "size": 0}, "size is 0"),
        ({"variant": "original", "replaced_share": 0}, "is 0; want above 0, up to 1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        ImbalanceAblation(**settings)
