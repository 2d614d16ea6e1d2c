"""An experiment file for data that nobody has trained on yet."""

from dicejax.analysis.starter.sources import KINDS, source_of
from dicejax.analysis.starter.suggestions import Suggestions, suggest
from dicejax.analysis.starter.writing import file_for

__all__ = ["KINDS", "Suggestions", "file_for", "source_of", "suggest"]
