"""What a stranger adds to the package costs few files, and works."""

import pytest

from .strangers.apply import HERE, MOST, copy_with, run_tests, touched


def test_there_is_a_patch_of_each_kind():
    assert {file.stem for file in HERE.glob("*.patch")} == set(MOST)


@pytest.mark.parametrize("name", MOST)
def test_a_change_touches_few_files_and_applies(name, tmp_path):
    files = touched(name)
    ours = [file for file in files if not file.startswith("tests/")]
    assert 0 < len(ours) <= MOST[name] and len(files) > len(ours)
    copy = copy_with(name, tmp_path)
    assert all((copy / file).exists() for file in files)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", MOST)
def test_a_change_passes_its_tests(name, tmp_path):
    result = run_tests(name, copy_with(name, tmp_path))
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    assert " passed" in result.stdout
