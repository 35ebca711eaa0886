"""Tokens are drawn by temperature and top_p, from a stream per answer."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attangent.serving.generation import Sampler, TextStream, chance_of

LOGITS = torch.tensor([0.3, 2.0, -1.0, 1.2, -5.0])


def reference(temperature, top_p):
    """The chances of each token by the definition: the most likely ones until they have top_p."""
    chances = [math.exp(value / temperature) for value in LOGITS.tolist()]
    total, allowed = sum(chances), {}
    for token in sorted(range(len(chances)), key=lambda token: -chances[token]):
        if sum(allowed.values()) < top_p * total:
            allowed[token] = chances[token]
    return [allowed.get(token, 0) / sum(allowed.values()) for token in range(len(chances))]


@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (0.5, 1.0), (2.0, 0.8), (1.0, 0.01)])
def test_draws_follow_the_definition(temperature, top_p):
    sampler = Sampler(temperature, top_p, seed=1)
    draws = 4000
    counts = torch.bincount(torch.tensor([sampler.next(LOGITS) for _ in range(draws)]), minlength=5)
    for count, chance in zip(counts.tolist(), reference(temperature, top_p), strict=True):
        assert abs(count - draws * chance) <= 4 * math.sqrt(draws * chance * (1 - chance))


def test_temperature_0_takes_the_most_likely():
    assert Sampler(0, 1, 0).next(LOGITS) == 1


def test_answers_to_one_request_differ_and_a_seed_fixes_each():
    def drawn(seed, choice):
        sampler = Sampler(1.0, 1.0, seed, choice)
        return [sampler.next(LOGITS) for _ in range(30)]

    assert drawn(5, 0) == drawn(5, 0)
    assert drawn(5, 0) != drawn(5, 1)
    assert drawn(5, 0) != drawn(6, 0)


def test_log_probabilities_are_those_of_the_softmax():
    chance = chance_of(LOGITS, 3, 2)
    assert chance.logprob == pytest.approx(math.log(LOGITS.softmax(0)[3]))
    assert [token for token, _ in chance.top] == [1, 3]
    assert chance.top[1][1] == pytest.approx(chance.logprob)


class Bytes:
    """A tokenizer with a token per byte, as those of real models fall back to."""

    def decode(self, tokens, skip_special_tokens=False):
        return bytes(tokens).decode(errors="replace")


def written(text, stops=()):
    stream = TextStream(Bytes(), stops)
    pieces = []
    for token in text.encode():
        pieces.append(stream.add(token))
        if stream.stopped:
            break
    return [*pieces, stream.finish()]


@given(st.text())
def test_the_pieces_together_are_the_text(text):
    text = text.encode(errors="ignore").decode()
    assert "".join(written(text)) == text


@given(st.text("abc", max_size=30), st.lists(st.text("abc", min_size=1, max_size=4), max_size=3))
def test_a_text_ends_before_its_first_stop_string(text, stops):
    # the earliest end of a stop string ends the text
    ends = [text.find(stop) + len(stop) for stop in stops if stop in text]
    read = text[: min(ends)] if ends else text
    starts = [read.find(stop) for stop in stops if stop in read]
    assert "".join(written(text, stops)) == (read[: min(starts)] if starts else text)


def test_nothing_of_a_stop_string_is_shown_before_it_is_certain():
    assert written("one END two", ["END"]) == ["o", "n", "e", " ", "", "", "", ""]
    assert written("ENDE", ["ENDING"]) == ["", "", "", "END", "E"]


def test_a_letter_of_several_bytes_arrives_whole():
    assert written("né✓") == ["n", "", "é", "", "", "✓", ""]


@pytest.mark.parametrize("tail", [b"\xe2", b"\xff" * 12])
def test_bytes_that_are_no_letter_are_replaced_at_last(tail):
    stream = TextStream(Bytes())
    text = "".join(stream.add(token) for token in b"a" + tail) + stream.finish()
    assert text == (b"a" + tail).decode(errors="replace")
