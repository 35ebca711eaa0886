"""Markers have exactly as many tokens as the prefix, whatever the tokenizer."""

import pytest

from attangent import AttangentError
from attangent.serving.exports.plain import make_marker
from tests.compression.cases import ChatLetters, Letters

DIGEST = "0123456789ab"


@pytest.mark.parametrize("size", [40, 41, 64, 127])
def test_a_chat_marker_begins_the_tokens_of_every_chat(size):
    marker = make_marker(ChatLetters(), ("system",), size, "town", DIGEST)
    assert len(marker.ids) == size
    text = ChatLetters().apply_chat_template([*marker.messages, {"role": "user", "content": "hello"}])
    assert ChatLetters()(text)["input_ids"][:size] == marker.ids
    assert marker.messages[0]["content"].startswith(f"town {DIGEST}")


def test_plain_text_and_several_messages():
    plain = make_marker(Letters(), (), 30, "town", DIGEST)
    assert len(plain.ids) == 30
    assert plain.messages == []
    several = make_marker(ChatLetters(), ("system", "user", "assistant"), 90, "town", DIGEST)
    assert [message["role"] for message in several.messages] == ["system", "user", "assistant"]
    assert len(several.ids) == 90


def test_other_digests_are_other_tokens():
    one = make_marker(Letters(), (), 30, "town", DIGEST)
    assert one.ids != make_marker(Letters(), (), 30, "town", "f" * 12).ids


def test_a_prefix_without_room_for_its_name_is_refused():
    with pytest.raises(AttangentError, match="its name and digest take 17"):
        make_marker(Letters(), (), 16, "town", DIGEST)


def test_a_tokenizer_without_single_tokens_is_refused():
    class Pairs(Letters):
        def __call__(self, text, add_special_tokens=True):
            return {"input_ids": [ord(letter) for letter in text for _ in range(2)]}

    with pytest.raises(AttangentError, match="no text of exactly 41 tokens"):
        make_marker(Pairs(), (), 41, "town", DIGEST)


def test_a_template_that_changes_earlier_messages_is_refused():
    class Counting(ChatLetters):
        def apply_chat_template(self, messages, tokenize=False, add_generation_prompt=False):
            return f"{len(messages)}{super().apply_chat_template(messages)}"

    with pytest.raises(AttangentError, match="changes earlier messages"):
        make_marker(Counting(), ("system",), 60, "town", DIGEST)
