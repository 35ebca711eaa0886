"""Keys and values of earlier prompts are found by their common beginning, within a limit of memory."""

import pytest
import torch

from attangent.serving.prompt_reuse import PromptReuse

IDS = list(range(40))


def layers(length):
    values = torch.arange(length, dtype=torch.float32).view(1, 1, length, 1)
    return [(values, -values)]


@pytest.mark.parametrize(
    ("ids", "length"),
    [
        ([*IDS, 99], 40),
        (IDS, 39),  # the last token must be read
        ([*IDS[:20], 99, *IDS[21:]], 20),
        (IDS[:18], 17),
        (IDS[:16], 0),  # too short to be worth it
        ([99, *IDS], 0),
    ],
)
def test_the_longest_common_beginning_is_found(ids, length):
    reuse = PromptReuse(1000)
    reuse.keep("red", IDS, layers(40))
    found, parts = reuse.find("red", ids)
    assert found == length
    assert [part[0].shape[2] for part in parts] == [length] * bool(length)
    assert reuse.find(None, ids) == (0, [])


def test_the_least_recently_used_goes_first():
    reuse = PromptReuse(2 * 40 * 8)
    for name in ("a", "b"):
        reuse.keep(name, IDS, layers(40))
    reuse.find("a", [*IDS, 1])
    reuse.keep("c", IDS, layers(40))
    assert [name for name in "abc" if reuse.find(name, [*IDS, 1])[0]] == ["a", "c"]
    assert reuse.number_of_bytes == 2 * 40 * 8
    reuse.forget("a")
    assert reuse.number_of_bytes == 40 * 8
    reuse.keep("d", range(200), layers(200))
    assert reuse.find("d", range(200)) == (0, [])


def test_another_question_on_the_same_text_replaces_the_first():
    reuse = PromptReuse(10_000)
    reuse.keep("a", [*IDS, 1, 2], layers(42))
    reuse.keep("a", [*IDS, 3], layers(41))
    assert reuse.number_of_bytes == 41 * 8
    reuse.keep("a", [*IDS[:20], *range(100, 120)], layers(40))
    assert reuse.number_of_bytes == (41 + 40) * 8
