"""Fixtures of the tests of readers."""

from ..data.readers.conftest import refusal, write

__all__ = ["refusal", "write"]
