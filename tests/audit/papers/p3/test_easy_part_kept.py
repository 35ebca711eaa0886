"""The tests of `papers/p3/easy_part_kept.py`."""

from tests.audit.papers.harness import ClaimSuite, check, line


class TestClaims(ClaimSuite):
    found = {
        "P3/theorem-4": "not reproduced",
    }
    benign = {
        "P3/theorem-4": {"decay_times": 0.0},
    }


def test_easy_weights_move_where_the_second_stage_is_long():
    finding = check("P3/theorem-4", decay_times=2.0)
    assert line(finding, "(d.1)").measured > 10
    assert line(finding, "move of the signal").measured > 0.2
