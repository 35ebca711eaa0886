"""Text arrives piece by piece and ends before a stop string."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attangent.serving.text_stream import TextStream


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
