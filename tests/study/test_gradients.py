"""Losses over probability: the paper's Figure 1, optima, every objective."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from dicejax.objectives import CrossEntropy, SelfAdjustingDice, by_short_name
from dicejax.study import figures
from dicejax.study.gradients.curves import (
    crossing,
    draw_figure_one,
    draw_losses,
    evaluate,
    figure_one,
    lowest,
    of_loss,
    of_objective,
    one_element,
    one_of_a_set,
    probabilities,
)

from ..kinds import NAMES


@pytest.mark.parametrize("alpha", [0.0, 0.1, 0.5, 1.0, 2.0, 4.0])
def test_both_sides_of_figure_1_by_differences(alpha):
    (points, derivative), step = figure_one(alpha), 1e-6
    inside = (points > 1e-3) & (points < 1 - 1e-3)
    p = points[inside]
    above, below = ((1 - x) ** alpha * x for x in (p + step, p - step))
    expected = (above / (1 + above) - below / (1 + below)) / (2 * step)
    np.testing.assert_allclose(derivative[inside], expected, rtol=1e-5, atol=2e-6)
    if alpha == 0:
        assert crossing(points, derivative) is None  # it never crosses zero
    else:
        assert crossing(points, derivative) == pytest.approx(1 / (1 + alpha), abs=2e-4)


def test_figure_1_is_one_call_with_its_optimum_marked():
    with figures.look():
        figure, (axes,) = figures.panels(1, 1)
        draw_figure_one(axes)
        drawn = figures.rendered(figure, "svg")
        again = figures.rendered(figure, "svg")
    curves = [line for line in axes.lines if len(line.get_xdata()) > 2]
    assert [line.get_label() for line in curves] == ["alpha=0", "alpha=1"]
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    assert [float(dot.get_xdata()[0]) for dot in dots] == [pytest.approx(0.5, abs=1e-3)]
    assert drawn == again and ElementTree.fromstring(drawn).tag.endswith("svg")


def test_slopes_are_those_of_the_loss():
    p = probabilities(7)
    curve = of_loss("focal", one_element, label="gamma=3", gamma=3.0)
    values, slopes = evaluate(curve, p, [1, 0])

    def loss(z):
        p = 1 / (1 + np.exp(-z))
        return -((1 - p) ** 3) * np.log(p)

    z, step = np.log(p / (1 - p)), 1e-5
    np.testing.assert_allclose(values, [loss(z), loss(z)], rtol=1e-4, atol=1e-6)
    differences = (loss(z + step) - loss(z - step)) / (2 * step)
    np.testing.assert_allclose(slopes[0], differences, rtol=1e-3, atol=1e-6)


def test_a_set_is_one_positive_among_negatives():
    p = np.array([0.5, 0.9])
    for smooth in (0.0, 5.0):
        label = f"smooth={smooth:g}"
        curve = of_loss("dice", one_of_a_set, label=label, smooth=smooth)
        assert curve[0] == f"dice, {label}"
        # I = p, P = p + 19 x 0.1, Y = 1.
        expected = 1 - (2 * p + smooth) / (p + 1.9 + 1 + smooth)
        np.testing.assert_allclose(evaluate(curve, p, [0])[0][0], expected, rtol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_every_objective_has_a_curve(name):
    curve = of_objective(by_short_name()[name]())
    values, slopes = evaluate(curve, probabilities(5), [0])
    assert np.isfinite(values).all() and np.isfinite(slopes).all()
    assert np.ptp(values) > 0 and np.abs(slopes).max() > 0


def test_the_curve_of_an_objective_is_its_loss_of_the_set():
    p = np.array([0.2, 0.7])
    values, slopes = evaluate(of_objective(CrossEntropy()), p, [0, 1])
    rest = -19 * np.log(0.9)
    np.testing.assert_allclose(values[0], (rest - np.log(p)) / 20, rtol=1e-4)
    np.testing.assert_allclose(slopes[0], (p - 1) / 20, rtol=1e-4)
    np.testing.assert_allclose(slopes[1], p / 20, rtol=1e-4)


def test_optima_are_marked_where_a_slope_crosses_zero():
    curve = of_objective(SelfAdjustingDice(alpha=1.0, over="element"))
    with figures.look():
        figure = draw_losses([curve, of_objective(CrossEntropy())], points=64)
    loss, slope = figure.axes[:2]
    for axes in (loss, slope):
        (dot,) = [line for line in axes.lines if line.get_marker() == "o"]
        assert float(dot.get_xdata()[0]) == pytest.approx(0.5, abs=0.01)
    assert slope.get_ylabel() == "dL/dz, z its logit"


def test_a_line_that_does_not_cross_has_no_crossing():
    x = np.array([0.0, 1.0, 2.0])
    assert crossing(x, np.array([1.0, 2.0, 3.0])) is None
    assert crossing(x, np.array([1.0, -3.0, 3.0])) == 0.25
    # A maximum is no optimum, and rounding makes none.
    assert lowest(x, np.array([1.0, -3.0, 3.0])) == 1.5
    assert lowest(x, np.array([1.0, -3.0, -2.0])) is None
    assert lowest(x, np.array([-1e-9, 1e-9, 2.0])) is None
