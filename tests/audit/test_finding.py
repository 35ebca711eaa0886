import math

import pytest

from attangent import AttangentError
from attangent.audit import Conclusion, Finding, Hypothesis, Series


def test_a_finding_without_a_claimed_conclusion_is_refused():
    with pytest.raises(AttangentError, match="at least one conclusion"):
        Finding(conclusions=(Conclusion("ours", "<=", 1.0, 0.0, claimed=False),))


def test_series_needs_equal_lengths():
    with pytest.raises(AttangentError, match="equal length"):
        Series.of("s", [1, 2, 3], [1, 2])


def test_the_line_a_verdict_rests_on():
    ours = Conclusion("ours", "<=", 1.0, 9.0, claimed=False)
    chosen = Conclusion("chosen", "<=", 1.0, 9.0, threshold="ours")
    empty = Conclusion("empty", "<=", 200.0, 3.0, log10=True)
    kept, open_ = Conclusion("kept", "<=", 1.0, 0.5), Conclusion("open", "<=", 1.0, math.nan)
    outside = Conclusion("outside", "<=", 1.0, 2.0, part="a")
    inside = Conclusion("inside", "<=", 1.0, 2.0, part="b")
    missed = Hypothesis("h", ">=", 1.0, 0.5, part="a")

    def name(*lines):
        line = Finding(lines, hypotheses=(missed,)).deciding
        return line and line.name

    assert name(ours, empty, kept) == "kept"
    assert name(ours, empty) == "empty"
    assert name(kept, open_) == "open"
    assert name(kept, open_, outside) == "outside"
    assert name(outside, inside) == "inside"
    assert name(chosen) is None
