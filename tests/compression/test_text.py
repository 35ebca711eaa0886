"""What states are fitted on."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attangent import AttangentError
from attangent.compression.text import (
    Calibration,
    joined_sentences,
    pieces,
    recitations,
    sentences_of,
    sharing_rows,
    spread,
)

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
    assert found.valid.sum() == 11
    assert [row.tolist() for row in found.sequences()] == [[1, 2, 3, 4], [1, 2, 3, 4, 5, 6, 7]]


def test_no_text_is_refused():
    with pytest.raises(AttangentError, match="no calibration text"):
        Calibration.of([NONE])


@given(lengths=st.lists(st.integers(1, 30), min_size=1, max_size=12))
def test_packed_rows_hold_every_token_once_at_its_own_place(lengths):
    text = Calibration.of([100 * i + torch.arange(length) for i, length in enumerate(lengths)])
    found = text.packed()
    assert found.ids.shape[1] == max(lengths)
    assert len(found.ids) <= len(lengths)
    assert sorted(found.ids[found.valid].tolist()) == sorted(text.ids[text.valid].tolist())
    assert torch.equal(found.positions[found.valid], found.ids[found.valid] % 100)
    same = found.ids.unsqueeze(2) // 100 == found.ids.unsqueeze(1) // 100
    before = found.positions.unsqueeze(2) >= found.positions.unsqueeze(1)
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


def test_sentences_with_the_same_beginning_are_not_asked_for():
    def letters(text):
        return torch.tensor([ord(letter) for letter in text])

    sentences = ["The sky is blue today.", "The sky is grey today.", "My dog is called Pepper."]
    (only,) = recitations(sentences, letters, letters)
    assert "".join(map(chr, only.answer.tolist())) == "My dog is called Pepper."


def test_long_sentences_are_asked_for_in_parts_that_are_said_whole():
    words = [f"word{i}" for i in range(100)]
    asked = []

    def question(text):
        asked.append(text)
        return torch.zeros(5)

    found = recitations([" ".join(words)], lambda text: torch.arange(len(text.split())), question)
    assert [len(turn.answer) for turn in found] == [33, 33, 34]
    assert asked[1] == " ".join(words[33:41]) + "?"


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


def test_short_sentences_are_joined_in_order_up_to_a_length():
    sentences = ["one two", "three", " ".join(["long"] * 24), "four five", " ".join(["very"] * 40)]
    joined = joined_sentences(sentences)
    assert joined == ["one two three", sentences[2] + " four five", sentences[4]]
    assert joined_sentences([]) == []


def test_braces_of_the_text_stay_in_the_question():
    def letters(text):
        return torch.tensor([ord(letter) for letter in text])

    (turn,) = recitations(["The {0} of the old mill is {1}."], letters, letters)
    assert "".join(map(chr, turn.asked.tolist())) == "The {0} of the?"


def test_sequences_share_a_row_while_they_fit_and_none_is_left_out():
    assert sharing_rows([3, 9, 4, 2, 6], 10) == [[1], [4, 2], [0, 3]]
    assert sharing_rows([12, 1], 10) == [[0], [1]]


def test_no_sentence_ends_at_an_abbreviation():
    text = "Open from 7 a.m. to 9 p.m. on Mondays, e.g. in May. Ask Dr. Lee. send raises it."
    assert sentences_of(text) == [
        "Open from 7 a.m. to 9 p.m. on Mondays, e.g. in May.",
        "Ask Dr. Lee.",
        "send raises it.",
    ]
