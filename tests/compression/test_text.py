"""What states are fitted on."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attangent import AttangentError
from attangent.compression.text import (
    Calibration,
    passages,
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


def letters(text):
    return torch.tensor([ord(letter) for letter in text])


def words_of(ids):
    return "".join(map(chr, ids.tolist()))


def test_passages_are_asked_for_in_turn_by_their_first_and_their_middle_words():
    said = ["The dog of the house is a white terrier.", "The cat of the house is a black Siamese."]
    first, second = recitations(said, letters, lambda text: letters(f"<{text}>"))
    assert words_of(first.ids) == f"<The dog of the house?>{said[0]}"
    assert words_of(second.ids) == f"<The cat of the house?>{said[1]}"
    first, second = recitations([said[0], "My favourite colour of all is the blue."], letters, letters)
    assert words_of(second.asked) == "colour of all is?"
    assert len(first.asked) == len("The dog of the house?")


def test_marks_of_tables_are_no_words_of_a_question():
    (turn,) = recitations(["| P1 | 10 Gbit | uplink | grey |"], letters, letters)
    assert words_of(turn.asked) == "P1 10 Gbit?"


def test_words_that_passages_share_ask_for_none_of_them():
    shared = ["The sky is blue over Kent.", "The sky is grey over Essex."]
    found = [words_of(turn.asked) for turn in recitations(shared, letters, letters)]
    assert found == ["sky is blue?", "sky is grey?"]
    assert len(recitations(shared[:1] * 3, letters, letters)) == 1
    assert recitations(["The sky is here.", "The sky is there."], letters, letters) == []


def test_what_has_no_words_to_divide_it_is_cut():
    found = recitations(["x" * 500], lambda text: torch.zeros(len(text)), lambda text: torch.zeros(3))
    assert [len(turn.answer) for turn in found] == [64]


@given(
    lines=st.lists(
        st.lists(st.sampled_from(["one", "two.", "| 3 |", "Dr.", "e.g."]), max_size=50), max_size=8
    )
)
def test_passages_are_the_whole_text_unchanged(lines):
    text = "\n".join(" ".join(line) for line in lines)
    found = passages(text)
    assert " ".join(" ".join(passage.split()) for passage in found) == " ".join(text.split())
    assert all(passage in text for passage in found)
    counts = [len(passage.split()) for passage in found]
    assert all(count <= 42 for count in counts)
    assert all(count >= 7 for count in counts) or len(found) == 1


def test_passages_end_with_a_sentence_or_a_line():
    text = (
        "# Mill\n\nThe mill was built in 1786 by Otto Lind. It has two wheels.\nsize = 3\nOpen from 7 a.m. "
        "to 9 p.m. on all days but Monday. Closed in May."
    )
    assert passages(text) == [
        "# Mill\n\nThe mill was built in 1786 by Otto Lind.",
        "It has two wheels.\nsize = 3",
        "Open from 7 a.m. to 9 p.m. on all days but Monday. Closed in May.",
    ]


@given(count=st.integers(0, 40), at_most=st.integers(1, 20))
def test_items_are_spread_evenly_and_in_order(count, at_most):
    found = spread(range(count), at_most)
    assert len(found) == min(count, at_most)
    assert found == sorted(set(found))
    gaps = [after - before for before, after in pairwise([*found, count])]
    assert not gaps or max(gaps) - min(gaps) <= 1


def test_braces_of_the_text_stay_in_the_question():
    (turn,) = recitations(["The {0} of the old mill is {1}."], letters, letters)
    assert words_of(turn.asked) == "The {0} of the?"


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
