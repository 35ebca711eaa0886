"""What states are fitted on."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attangent import AttangentError
from attangent.compression.capture import prefill
from attangent.compression.text import (
    IN_MANY_WAYS,
    Calibration,
    _drawn,
    pieces,
    recitations,
    sample,
    sentences_of,
    sharing_rows,
    spread,
)
from tests.compression.cases import tiny_llama

PROMPT = torch.arange(40) % 61
NONE = torch.zeros(0, dtype=torch.long)


@given(length=st.integers(1, 400), at_most=st.integers(1, 9), seed=st.integers(0, 5))
def test_pieces_are_parts_of_the_text_in_order(length, at_most, seed):
    text = torch.arange(length)
    every = pieces(text, 64)
    assert torch.equal(torch.cat(every), text)
    some = pieces(text, 64, at_most, seed)
    assert len(some) == min(at_most, len(every))
    assert sorted(piece[0].item() for piece in some) == [piece[0].item() for piece in some]
    assert all(torch.equal(piece, torch.arange(int(piece[0]), int(piece[-1]) + 1)) for piece in some)


def test_sequences_of_any_length_are_padded_and_come_back():
    rows = [torch.arange(1, 5), NONE, torch.arange(1, 8)]
    found = Calibration.of(rows)
    assert found.ids.shape == (2, 7)
    assert found.tokens == 11
    assert [row.tolist() for row in found.sequences()] == [[1, 2, 3, 4], [1, 2, 3, 4, 5, 6, 7]]


def test_no_text_is_refused():
    with pytest.raises(AttangentError, match="no calibration text"):
        Calibration.of([NONE])
    with pytest.raises(AttangentError, match="equal shapes"):
        Calibration(torch.zeros(2, 3).long(), torch.ones(3, 2, dtype=torch.bool))


def test_a_batch_is_as_long_as_its_longest_sequence():
    found = Calibration.of([torch.arange(1, 5), torch.arange(1, 8), torch.arange(1, 3)])
    ids, valid = found.batch([0, 2])
    assert ids.tolist() == [[1, 2, 3, 4], [1, 2, 0, 0]]
    assert valid.sum() == 6


@given(lengths=st.lists(st.integers(1, 30), min_size=1, max_size=12))
def test_packed_rows_hold_every_token_once_at_its_own_place(lengths):
    text = Calibration.of([100 * i + torch.arange(length) for i, length in enumerate(lengths)])
    found = text.packed()
    assert found.ids.shape[1] == max(lengths)
    assert len(found.ids) <= len(lengths)
    assert sorted(found.ids[found.valid].tolist()) == sorted(text.ids[text.valid].tolist())
    assert torch.equal(found.places[found.valid], found.ids[found.valid] % 100)
    same = found.ids.unsqueeze(2) // 100 == found.ids.unsqueeze(1) // 100
    before = found.places.unsqueeze(2) >= found.places.unsqueeze(1)
    both = found.valid.unsqueeze(2) & found.valid.unsqueeze(1)
    assert torch.equal(found.seen[:, 0][both], (same & before)[both])


def test_sentences_are_asked_for_by_their_first_half():
    text = "The cook is Pavel Dorn. Soup!\nThe dog is called Pepper: a white dog"
    sentences = sentences_of(text)
    assert sentences == ["The cook is Pavel Dorn.", "The dog is called Pepper:", "a white dog"]

    def letters(text):
        return torch.tensor([ord(letter) for letter in text])

    found = recitations(sentences[:2], letters, lambda text: letters(f"<{text}>"))
    assert "".join(map(chr, found[1].ids.tolist())) == "<The dog?>The dog is called Pepper:"
    assert len(found[1].asked) == len("<The dog?>")


def test_long_sentences_are_asked_for_in_parts_that_are_said_whole():
    words = [f"word{i}" for i in range(100)]
    asked = []

    def question(text):
        asked.append(text)
        return torch.zeros(5)

    found = recitations([" ".join(words)], lambda text: torch.arange(len(text.split())), question)
    assert [len(turn.answer) for turn in found] == [33, 33, 34]
    assert asked[1] == " ".join(words[33:45]) + "?"


def test_what_has_no_words_to_divide_it_is_cut():
    (found,) = recitations(["x" * 500], lambda text: torch.zeros(len(text)), lambda text: torch.zeros(3))
    assert len(found.answer) == 64


@given(count=st.integers(0, 40), at_most=st.integers(1, 20))
def test_items_are_spread_evenly_and_in_order(count, at_most):
    found = spread(range(count), at_most)
    assert len(found) == min(count, at_most)
    assert found == sorted(set(found))
    gaps = [after - before for before, after in pairwise([*found, count])]
    assert not gaps or max(gaps) - min(gaps) <= 1


def test_samples_are_those_of_the_model_with_the_prompt_in_its_input():
    """Drawn with almost no temperature, samples are the model's own likeliest tokens."""
    model = tiny_llama()
    opening, few = torch.tensor([5, 6]), {"length": 12, "temperature": 1e-4}
    found = sample(model, prefill(model, PROMPT), opening, {"a": 1, "b": 1}, 0, **few)
    ids = torch.cat([PROMPT, torch.tensor([5, 6])])[None]
    with torch.no_grad():
        for _ in range(10):
            ids = torch.cat([ids, model(ids).logits[:, -1:].argmax(dim=-1)], dim=1)
    assert found["a"].tolist() == found["b"].tolist() == ids[:, 40:].tolist()


def test_the_first_drawn_token_follows_the_prompt_where_there_is_no_opening():
    model = tiny_llama()
    found = sample(model, prefill(model, PROMPT), NONE, {"a": 1}, 0, length=3, temperature=1e-4)
    assert found["a"][0, 0] == model(PROMPT[None]).logits[0, -1].argmax()


def test_seeds_and_streams_draw_different_texts():
    model = tiny_llama()
    cache = prefill(model, PROMPT)

    def draw(seed, *streams):
        found = sample(model, cache, NONE, dict.fromkeys(streams, 2), seed, length=16)
        return {stream: texts.tolist() for stream, texts in found.items()}

    assert draw(0, "a") == draw(0, "a")
    assert draw(0, "a") != draw(1, "a")
    assert draw(0, "a")["a"] != draw(0, "b")["b"]
    assert draw(0, "a", "b") == draw(0, "a") | draw(0, "b")


def test_tokens_are_drawn_as_often_as_their_chances_say():
    chances = torch.tensor([0.5, 0.0, 0.3, 0.2])
    found = _drawn(chances.log().expand(20_000, 4), torch.Generator().manual_seed(0))
    often = torch.bincount(found[:, 0], minlength=4) / 20_000
    torch.testing.assert_close(often, chances, atol=0.02, rtol=0)
    assert often[1] == 0


def test_ways_to_ask_take_turns_and_braces_of_the_text_stay():
    asked = []
    sentences = [f"The {{{place}}} of the old mill is called Number {place}." for place in range(4)]

    def question(text):
        asked.append(text)
        return torch.zeros(1)

    recitations(sentences, lambda text: torch.zeros(len(text)), question, IN_MANY_WAYS)
    assert asked == [
        "The {0} of the old?",
        'Quote the sentence that begins with "The {1} of".',
        "Please go on: The {2} of the old",
        "The {3} of the old?",
    ]


def test_sequences_share_a_row_while_they_fit_and_none_is_left_out():
    assert sharing_rows([3, 9, 4, 2, 6], 10) == [[1], [4, 2], [0, 3]]
    assert sharing_rows([12, 1], 10) == [[0], [1]]
