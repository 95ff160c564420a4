"""Does the extension module pass samples and results of the estimators through unchanged?"""

import pytest

from nearfield import _native


def test_python_sees_the_same_estimators():
    samples = [float(i) for i in range(1, 21)]
    estimate = _native.median_estimate(samples)
    assert (estimate.value, estimate.low, estimate.high, estimate.n) == (10.5, 6.0, 15.0, 20)
    assert _native.paired_ratio([1.0, 2.0], [2.0, 4.0]).value == 2.0
    with pytest.raises(ValueError, match="not a number"):
        _native.median_estimate([1.0, float("nan")])
