"""The tests of `papers/p3/norms.py`."""

from tests.papers.harness import ClaimSuite, check


class TestClaims(ClaimSuite):
    found = {
        "P3/proposition-3": "violated",
        "P3/proposition-3-repaired": "holds",
        "P3/proposition-4": "holds",
    }
    broken = {
        "P3/proposition-3-repaired": {"frame": "axes"},
        "P3/proposition-4": {"gradient_factor": 0.1},
    }


def test_rows_in_a_random_frame_hold_less_of_the_gradient():
    rows = [
        [line.measured for line in check("P3/proposition-3", frame=frame).conclusions[:2]]
        for frame in ("random", "axes")
    ]
    assert max(rows[0]) < min(rows[1]) - 0.1
