"""Spoilt files."""

import random

import pytest
from chaos.spoil import OTHER_THINGS, WAYS, put_something_else

GOOD = b'{\n  "a": 1,\n  "b": "x"\n}\n'


@pytest.mark.parametrize("way", [way for way in WAYS if way != "surrogates"])
def test_every_way_changes_the_file(way):
    assert any(WAYS[way](GOOD, random.Random(number)) != GOOD for number in range(20))


def test_the_same_number_spoils_in_the_same_way():
    ways = ("flipped", "truncated", "other value", "line lost")
    first, again = ([WAYS[way](GOOD, random.Random(5)) for way in ways] for _ in range(2))
    assert first == again


@pytest.mark.parametrize("way", OTHER_THINGS)
def test_other_things_in_the_place_of_a_file(tmp_path, way):
    path = tmp_path / "file"
    path.write_text("x")
    put_something_else(path, way)
    assert not path.is_file()
