"""Tag schemes: decoding as seqeval does, encoding, detection."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dicejax.data import tags
from dicejax.data.tags import Span

SCHEMES = tuple(tags.PREFIXES)
# Types that a careless split at "-" or at the first letter would break.
TYPES = ("PER", "LOC", "work-of-art", "-", "O", "B-PER", "_", "地名")

unhurried = settings(deadline=None)  # a busy machine is no failure


@st.composite
def span_lists(draw):
    """Draw flat spans, many of them touching, and the length of their sentence."""
    spans, place = [], 0
    for _ in range(draw(st.integers(0, 6))):
        start = place + draw(st.sampled_from((0, 0, 1, 3)))
        place = start + draw(st.integers(1, 4))
        spans.append(Span(draw(st.sampled_from(TYPES[:2] + TYPES)), start, place))
    return spans, place + draw(st.integers(0, 2))


def tag_sequences(scheme, kinds=("PER", "LOC", "A-B")):
    """Draw tags in any order: mostly malformed; some name no type."""
    prefixes = tags.PREFIXES[scheme]
    present = [f"{prefix}-{kind}" for prefix in prefixes for kind in kinds]
    return st.lists(st.sampled_from(["O", "O", *present, *prefixes, "B-"]), max_size=12)


def test_every_scheme_writes_the_same_spans_its_own_way():
    spans = [Span("PER", 0, 1), Span("PER", 1, 3), Span("LOC", 3, 6), Span("PER", 7, 9)]
    written = {scheme: tags.encode(spans, 9, scheme) for scheme in SCHEMES}
    assert {s: "".join(tag[0] for tag in t) for s, t in written.items()} == {
        "IOB1": "IBIIIIOII",
        "BIO": "BBIBIIOBI",
        "IOBES": "SBEBIEOBE",
        "BMES": "SBEBMEOBE",
        "BILOU": "UBLBILOBL",
    }


@pytest.mark.parametrize("scheme", SCHEMES)
@unhurried
@given(data=span_lists())
def test_decoding_undoes_encoding_in_tags_of_the_label_set(scheme, data):
    spans, length = data
    encoded = tags.encode(spans[::-1], length, scheme)
    assert tags.spans(encoded, scheme) == spans
    assert set(encoded) <= set(tags.label_set(scheme, {s.type for s in spans}))


@pytest.mark.parametrize("scheme", SCHEMES)
@unhurried
@given(st.data())
def test_any_sequence_decodes_to_flat_spans_that_encode_and_decode_again(scheme, data):
    sequence = data.draw(tag_sequences(scheme))
    spans = tags.spans(sequence, scheme)
    assert tags.spans(tags.encode(spans, len(sequence), scheme), scheme) == spans
    inside = {place for span in spans for place in range(span.start, span.end)}
    assert inside == {i for i, tag in enumerate(sequence) if tag != "O"}


@pytest.fixture(scope="module")
def seqeval():
    return pytest.importorskip(
        "seqeval.metrics.sequence_labeling", reason="seqeval: the [parity] extra"
    )


@pytest.mark.parametrize("scheme", ["IOB1", "BIO", "IOBES"])
@unhurried
@given(st.data())
def test_decoding_equals_seqeval(seqeval, scheme, data):
    sequence = data.draw(tag_sequences(scheme))
    expected = seqeval.get_entities(sequence)
    decoded = tags.spans(sequence, scheme)
    assert [(span.type, span.start, span.end - 1) for span in decoded] == expected


@pytest.mark.parametrize(
    ("scheme", "letters"), [("BMES", {"I": "M"}), ("BILOU", {"E": "L", "S": "U"})]
)
@unhurried
@given(sequence=tag_sequences("IOBES"))
def test_other_letters_decode_as_those_of_iobes(scheme, letters, sequence):
    written = [letters.get(tag[0], tag[0]) + tag[1:] for tag in sequence]
    assert tags.spans(written, scheme) == tags.spans(sequence, "IOBES")


@pytest.mark.parametrize(
    ("sequence", "expected"),
    [
        ("", []),
        ("O O", []),
        ("I-A I-A", [("A", 0, 2)]),
        ("O I-A", [("A", 1, 2)]),
        ("B-A I-B", [("A", 0, 1), ("B", 1, 2)]),
        ("I-A I-B I-A", [("A", 0, 1), ("B", 1, 2), ("A", 2, 3)]),
        ("I-A B-A I-A", [("A", 0, 1), ("A", 1, 3)]),
        ("O O B-A", [("A", 2, 3)]),
        ("B-x-y I-x-y", [("x-y", 0, 2)]),
        ("B I O I", [("_", 0, 2), ("_", 3, 4)]),
        ("B- I", [("_", 0, 2)]),
        ("B-A E-A E-A", [("A", 0, 2), ("A", 2, 3)]),
        ("B-A E-A I-A", [("A", 0, 2), ("A", 2, 3)]),
        ("S-A I-A E-A", [("A", 0, 1), ("A", 1, 3)]),
        ("B-A S-A", [("A", 0, 1), ("A", 1, 2)]),
        ("B-A I-A O", [("A", 0, 2)]),
        ("B-A E-B", [("A", 0, 1), ("B", 1, 2)]),
    ],
)
def test_hand_decoded_sequences(sequence, expected):
    assert tags.spans(sequence.split(), "IOBES") == expected


@pytest.mark.parametrize("tag", ["X-PER", "PER", "o", "", "O-PER", "b-PER", "K-PER"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_tag_of_no_scheme_is_refused(tag, scheme):
    with pytest.raises(ValueError, match=f"{tag!r} does not belong to {scheme}.*O, B-"):
        tags.spans(["O", tag], scheme)
    with pytest.raises(ValueError, match="any scheme"):
        tags.detect_scheme([["O"], [tag]])


@pytest.mark.parametrize(
    "call",
    [
        lambda: tags.spans([], "BIOLU"),
        lambda: tags.encode([], 0, "BIOLU"),
        lambda: tags.label_set("BIOLU", []),
    ],
)
def test_an_unknown_scheme_is_refused_with_the_known_ones(call):
    with pytest.raises(
        ValueError, match="'BIOLU'; choose from IOB1, BIO, IOBES, BMES, BILOU"
    ):
        call()


@pytest.mark.parametrize(
    ("spans", "message"),
    [
        ([Span("A", 0, 2), Span("B", 1, 3)], "overlaps"),
        ([Span("A", 0, 3), Span("B", 1, 2)], "overlaps"),
        ([Span("A", 0, 2), Span("A", 0, 2)], "overlaps"),
        ([Span("A", 1, 1)], "does not fit"),
        ([Span("A", 2, 1)], "does not fit"),
        ([Span("A", -1, 1)], "does not fit"),
        ([Span("A", 2, 4)], "does not fit a sentence of 3 words"),
        ([Span("", 0, 1)], "no type"),
    ],
)
def test_spans_that_tags_cannot_hold_are_refused(spans, message):
    with pytest.raises(ValueError, match=message):
        tags.encode(spans, 3, "BIO")


@pytest.mark.parametrize(
    ("sequences", "scheme"),
    [
        ([], "BIO"),
        ([[], ["O"]], "BIO"),
        ([["B-A", "I-A", "O"]], "BIO"),
        ([["I-A", "I-A", "O"]], "IOB1"),
        ([["O", "I-A", "B-A"]], "IOB1"),
        ([["I-A", "I-B"]], "IOB1"),
        # Each sentence begins anew.
        ([["I-A"], ["B-A"]], "BIO"),
        ([["I-A", "O", "I-A", "B-A"]], "IOB1"),
        # A damaged BIO file: IOB1 never writes the B- after O.
        ([["B-A", "I-A", "O", "B-A"], ["I-A", "O"]], "BIO"),
        ([["S-A", "O"]], "IOBES"),
        ([["B-A", "E-A"]], "IOBES"),
        ([["B-A", "I-A", "E-A"]], "IOBES"),
        ([["B-A", "M-A", "E-A"], ["S-A"]], "BMES"),
        ([["U-A", "O"]], "BILOU"),
        ([["B-A", "L-A"]], "BILOU"),
    ],
)
def test_detection(sequences, scheme):
    assert tags.detect_scheme(sequences) == scheme


@pytest.mark.parametrize("scheme", SCHEMES)
@unhurried
@given(corpus=st.lists(span_lists(), max_size=4))
def test_a_detected_scheme_decodes_to_the_spans_that_were_written(scheme, corpus):
    sequences = [tags.encode(*sentence, scheme) for sentence in corpus]
    detected = tags.detect_scheme(sequences)
    decoded = [tags.spans(sequence, detected) for sequence in sequences]
    assert decoded == [spans for spans, _ in corpus]


def test_label_sets_do_not_depend_on_the_order_of_types():
    expected = ["O", "B-A", "M-A", "E-A", "S-A", "B-B-C", "M-B-C", "E-B-C", "S-B-C"]
    assert tags.label_set("BMES", ["B-C", "A"]) == expected
    assert tags.label_set("BMES", iter(["A", "B-C", "A"])) == expected
    assert tags.label_set("IOB1", ["A"]) == tags.label_set("BIO", ["A"])
    assert tags.label_set("IOBES", []) == ["O"]
    with pytest.raises(ValueError, match="empty"):
        tags.label_set("BIO", [""])
