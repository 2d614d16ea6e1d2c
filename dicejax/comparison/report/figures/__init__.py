"""The pictures of a report: each loss beside the baseline, in panels of its own.

Eleven losses in one pair of axes are told apart by nobody. A panel holds two, which
differ in dashes and marks as well as in colour.
"""

from dicejax.comparison.report.figures.calibration import calibration
from dicejax.comparison.report.figures.classes import by_class
from dicejax.comparison.report.figures.learning import learning
from dicejax.comparison.report.figures.strip import strip
from dicejax.comparison.report.figures.thresholds import thresholds

__all__ = ["by_class", "calibration", "learning", "strip", "thresholds"]
