"""The pictures of a report: each loss beside the baseline, in panels of its own.

Eleven losses in one pair of axes are told apart by nobody. A panel holds two, which
differ in dashes and marks as well as in colour.
"""

from dicejax.analysis.report.figures.calibration import calibration
from dicejax.analysis.report.figures.classes import by_class
from dicejax.analysis.report.figures.learning import learning
from dicejax.analysis.report.figures.strip import strip
from dicejax.analysis.report.figures.thresholds import thresholds

__all__ = ["by_class", "calibration", "learning", "strip", "thresholds"]
