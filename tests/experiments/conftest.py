"""Fixtures of the tests of readers."""

from ..formats.conftest import refusal, write

__all__ = ["refusal", "write"]
