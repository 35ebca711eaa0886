"""Prompts as tokens, and what cannot be one."""

import pytest
import torch

from attangent import AttangentError
from attangent.compression.prompt import (
    Reader,
    check_length,
    check_model,
    fingerprint,
    read_prompt,
    tokens_of,
)
from tests.compression.cases import ChatLetters, Letters, tiny_llama

CHAT = [{"role": "system", "content": "be kind"}]


def text(ids):
    return "".join(chr(i) for i in ids.tolist())


def test_text_is_taken_as_it_is():
    ids, reader = read_prompt(Letters(), "hello")
    assert text(ids) == "hello"
    assert reader == Reader()
    assert text(reader.question(Letters(), "who?")) == "who?"
    assert len(reader.opening(Letters())) == 0


def test_text_begins_as_every_text_of_the_tokenizer_does():
    class Begun(Letters):
        bos_token_id = 2

        def __call__(self, text, add_special_tokens=True):
            own = super().__call__(text)["input_ids"]
            return {"input_ids": [2, *own] if add_special_tokens else own}

    ids, reader = read_prompt(Begun(), "hello")
    assert text(ids) == "\x02hello"
    assert text(read_prompt(Begun(), "\x02hello")[0]) == "\x02hello"
    assert text(reader.question(Begun(), "who?")) == "who?"

    class Unused(Letters):
        bos_token_id = 2

    assert text(read_prompt(Unused(), "hello")[0]) == "hello"
    with pytest.raises(AttangentError, match="prompt is empty"):
        read_prompt(Begun(), "")


def test_a_chat_goes_through_the_template_and_so_does_what_follows():
    ids, reader = read_prompt(ChatLetters(), CHAT)
    assert text(ids) == "<system>be kind</>"
    assert text(reader.question(ChatLetters(), "who?")) == "<user>who?</><assistant>"
    assert text(reader.opening(ChatLetters())) == "<user>"


def test_a_template_that_rewrites_earlier_messages_is_refused():
    class Rewriting(ChatLetters):
        def apply_chat_template(self, messages, tokenize=False, add_generation_prompt=False):
            return f"{len(messages)}" + super().apply_chat_template(messages)

    with pytest.raises(AttangentError, match="changes earlier messages"):
        Reader(("system",)).question(Rewriting(), "who?")


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ("", "prompt is empty"),
        (3, r"prompt must be text or chat messages .*\(got int\)"),
        ([], "got list"),
        (
            [{"role": "user", "content": "a"}, {"role": "system"}],
            "message 2 of the prompt is .* must be text or chat",
        ),
        ([{"role": "system", "content": None}], "message 1 of the prompt has the content None"),
        ([{"role": "user", "content": [{"type": "image"}]}], "a part of type 'image', expected only text"),
        (CHAT, "no chat template"),
    ],
)
def test_what_is_no_prompt_is_refused(prompt, message):
    with pytest.raises(AttangentError, match=message):
        read_prompt(Letters(), prompt)


def test_a_tokenizer_with_more_words_than_the_model_belongs_to_another():
    check_model(tiny_llama(), Letters(128))
    with pytest.raises(AttangentError, match="has 129 tokens and LlamaForCausalLM knows 128"):
        check_model(tiny_llama(), Letters(129))
    assert fingerprint(Letters(128)) != fingerprint(Letters(127))


def test_models_that_write_no_text_are_refused():
    from transformers import BertConfig, BertModel, T5Config, T5ForConditionalGeneration

    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    bert = BertModel(BertConfig(vocab_size=128, **sizes))
    t5 = T5ForConditionalGeneration(
        T5Config(vocab_size=128, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2)
    )
    for model in (bert, t5):
        with pytest.raises(AttangentError, match="not a causal language model"):
            check_model(model, Letters())
    with pytest.raises(AttangentError, match="expected a Hugging Face"):
        check_model(torch.nn.Linear(2, 2), Letters())


def test_prompts_beyond_the_context_or_the_window_are_refused():
    model = tiny_llama(context=100)
    check_length(model, 36)
    with pytest.raises(AttangentError, match="LlamaForCausalLM sees only 100"):
        check_length(model, 37)
    from transformers import MistralConfig, MistralForCausalLM

    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    mistral = MistralForCausalLM(
        MistralConfig(
            vocab_size=64, num_key_value_heads=1, sliding_window=90, max_position_embeddings=500, **sizes
        )
    )
    check_length(mistral, 26)
    with pytest.raises(AttangentError, match="MistralForCausalLM sees only 90"):
        check_length(mistral, 27)


def test_half_a_letter_has_no_tokens():
    with pytest.raises(AttangentError, match="surrogate"):
        tokens_of(lambda text, **options: pytest.fail("asked"), "a \udcff")


def test_the_text_parts_of_a_content_are_joined():
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    ids, reader = read_prompt(ChatLetters(), [{"role": "system", "content": parts}])
    assert reader.roles == ("system",)
    assert torch.equal(ids, read_prompt(ChatLetters(), [{"role": "system", "content": "a\nb"}])[0])
