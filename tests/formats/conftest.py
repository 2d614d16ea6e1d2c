"""Fixtures of all reader tests: writing files, reading error messages."""

from __future__ import annotations

import gzip
import json

import pytest

from dicejax.errors import InputError


@pytest.fixture
def write(tmp_path):
    """Write text, bytes, or data as JSON; compressed where the name says so."""

    def write(content, name="train.txt"):
        if not isinstance(content, str | bytes):
            content = json.dumps(content)
        content = content.encode() if isinstance(content, str) else content
        path = tmp_path / name
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return path

    return write


@pytest.fixture
def refusal():
    """Return the error message for a file, without the file's folder."""

    def refusal(read, path, *args, **settings):
        with pytest.raises(InputError) as caught:
            read(path, *args, **settings)
        message = str(caught.value)
        assert "\n" not in message
        assert message.startswith(str(path))
        return message.removeprefix(str(path))

    return refusal
