"""Expected words and values in answers."""

import pytest

from attangent.compression.matching import DENIAL, holds_words


@pytest.mark.parametrize(
    ("text", "expected", "holds"),
    [
        ("It weighs 3.2 kilograms.", "3", False),
        ("It weighs 3.2 kilograms.", "3.2", True),
        ("It is 1,200.", "1200", True),
        ("four weeks", "4", True),
        ("It costs 12,50 Euro.", "12.50", True),
        ("at 9:30", "9", False),
        ("use R290.", "r290", True),
        ("part CP-7702", "CP-7702", True),
        ("the Brandvolds", "Brandvold", False),
        ("Ann's house", "Ann", True),
        ("They don't.", DENIAL, True),
        ("The nuts are forbidden in the school's lunch.", DENIAL, True),
        ("Yes, always.", DENIAL, False),
        ("on 31 March", "March 31|31 March", True),
        ("anything", "", False),
    ],
)
def test_words_are_matched_whole_and_numbers_by_value(text, expected, holds):
    assert holds_words(text, expected) is holds
