"""Exact match of texts that go on, and the tasks it is measured on."""

import pytest

from benchmarks.suites.tuning.completions import TEST, TRAIN, exact, sums


@pytest.mark.parametrize(
    ("answer", "hit"),
    [
        (" Rome", True),
        ("Rome.", True),
        (" Rome and", True),
        (" Romeo", False),
        ("", False),
        (" In Rome", False),
    ],
)
def test_an_answer_is_the_word_and_nothing_longer(answer, hit):
    assert exact([answer], [" Rome"]) == hit


def test_sums_are_right_and_none_is_in_both_parts(tmp_path):
    rows = sums(tmp_path, tmp_path, 0)
    assert len(rows) == len(set(rows)) == TRAIN + TEST
    for prompt, answer in rows:
        first, second = (int(word) for word in prompt.split() if word.isdigit())
        assert answer == f" <{first + second}>"
    assert sums(tmp_path, tmp_path, 1) != rows
