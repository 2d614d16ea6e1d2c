"""brat's standoff, as brat's documentation has it."""

import pytest

from dicejax.cli import run
from dicejax.errors import InputError
from dicejax.formats import JsonSentences
from dicejax.formats.records import Skipped

from ..small_project import fails
from .test_json_lines import spans

read_sentences = JsonSentences.read_file

TEXT = "Sony said Jo Ann\r\nMoe 🙂 joined Sony, north\nand South America.\n"
LINES = """T1\tOrganization 0 4\tSony
E1\tMERGE-ORG:T1 Org2:T2
T2\tPerson 10 21\tJo Ann Moe
R1\tOrigin Arg1:T3 Arg2:T4
T3\tOrganization 31 35\tSony
*\tEquiv T1 T3
A1\tConfidence E1
#1\tAnnotatorNotes T1\tthis is a note
"""


@pytest.fixture
def folder(tmp_path):
    """Return a folder of two documents, the second without entities."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "a.txt").write_bytes(TEXT.encode())
    (folder / "a.ann").write_text(LINES)
    (folder / "b.txt").write_text("Nothing here.")
    (folder / "b.ann").write_text("")
    (folder / "annotation.conf").write_text("[entities]\n")
    return folder


def test_entities_relations_and_notes(folder):
    first, other = read_sentences(folder)
    assert spans(first) == [
        ("Organization", "Sony"),
        ("Person", "Jo Ann Moe"),
        ("Organization", "Sony"),
    ]
    assert first.words[:7] == ("Sony", "said", "Jo", "Ann", "Moe", "🙂", "joined")
    assert (other.words, other.spans) == (("Nothing", "here", "."), ())


def test_a_gap_is_refused_or_left_out_and_counted(folder):
    with (folder / "a.ann").open("a") as file:
        file.write("T4\tPlace 37 42;51 58\tnorth America\n")
    message = r"a.ann:9: entity T4 has a gap \(37 42;51 58\)"
    with pytest.raises(InputError, match=message):
        read_sentences(folder)
    skipped = Skipped()
    e, _ = read_sentences(folder, on_error=skipped)
    assert skipped.count == 1 and len(e.spans) == 3


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("T4\tX 0 3\tSony", "a.ann:9: entity T4 is 'Sony', but 0 to 3 of the text is"),
        ("T4 X 0 4 Sony", "a.ann:9: 'T4 X 0 4 Sony' is not an entity"),
        ("T4\tX 0 3", r"a.ann: entities\[3\] \('T4'\) is 'Son', which cuts a word"),
        ("T4\tX 900 904", r"a.ann: entities\[3\] \('T4'\) is at 900 to 904 of"),
        ("T4\tX 10 16\tJo Ann", r"a.ann: entities 'X' \('Jo Ann'\) and 'Person' \("),
    ],
)
def test_malformed_entities_name_file_and_line(folder, line, message):
    with (folder / "a.ann").open("a") as file:
        file.write(line)
    with pytest.raises(InputError, match=message):
        read_sentences(folder)
    skipped = Skipped()
    assert len(read_sentences(folder, on_error=skipped)) == skipped.count == 1


def test_files_that_are_missing_or_no_text(folder):
    (folder / "b.txt").write_bytes(b"caf\xe9")
    with pytest.raises(InputError, match=r"b\.txt: byte 3 is not UTF-8"):
        read_sentences(folder)
    (folder / "b.txt").unlink()
    with pytest.raises(InputError, match=r"b\.txt: no such file"):
        read_sentences(folder)


def test_init_and_profile_know_it(folder, tmp_path, capsys):
    for number in range(12):
        (folder / f"c{number}.txt").write_text("Jo sings.")
        (folder / f"c{number}.ann").write_text("T1\tPerson 0 2\tJo\n")
    words = ["--encoder", "scratch", "--data"]
    assert run(["init", "ner", str(tmp_path / "m"), *words, str(folder)]) == 0
    message = capsys.readouterr().out
    assert "Documents with entities, brat's standoff: .txt and .ann files." in message
    assert run(["profile", str(tmp_path / "m/experiment.py")]) == 0
    assert "Person" in capsys.readouterr().out
    splits = tmp_path / "splits"
    splits.mkdir()
    for split in ("train", "dev", "test"):
        (splits / split).symlink_to(folder)
    assert run(["init", "ner", str(tmp_path / "s"), *words, str(splits)]) == 0
    written = (tmp_path / "s/experiment.py").read_text()
    assert "Examples: train 14, dev 14, test 14" in written
    capsys.readouterr()
    argv = ["init", "classification", str(tmp_path / "x"), *words, str(folder)]
    fails(capsys, argv, "holds brat's .ann files", "`init ner` may")
