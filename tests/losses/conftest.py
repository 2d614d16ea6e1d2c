"""Finite differences, for tests of gradients."""

import numpy as np
import pytest


@pytest.fixture
def central_difference():
    """A function (f, x) -> gradient of the scalar f at the array x, error near 1e-9."""

    def gradient(function, x, step=1e-5):
        x = np.asarray(x, np.float64)
        result = np.empty_like(x)
        for place in np.ndindex(x.shape):
            ahead, behind = x.copy(), x.copy()
            ahead[place] += step
            behind[place] -= step
            result[place] = (function(ahead) - function(behind)) / (2 * step)
        return result

    return gradient
