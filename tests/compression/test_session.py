"""A chat behind a compressed prompt: as with the prompt in the input, and folded when it grows too long."""

import pytest
import torch

from attangent import AttangentError
from attangent.compression.entry import compress
from attangent.compression.prompt import BareReader
from attangent.compression.session import ChatSession, generate_text
from tests.compression.cases import ChatLetters, Letters, tiny_llama

TEXT = "some text that is long enough to be worth compressing, and then a little more. "
CHAT = [{"role": "system", "content": TEXT}]


def ids(text):
    return torch.tensor(Letters()(text)["input_ids"])


def test_turns_are_answered_as_with_everything_in_the_input():
    model = tiny_llama(layers=2)
    session = ChatSession(model, ChatLetters(), compress(model, ChatLetters(), CHAT, size=400))
    shown = f"<system>{TEXT}</>"
    for question in ("who?", "and why?"):
        answer = session.say(question, tokens=5)
        shown += f"<user>{question}</><assistant>"
        given = ids(shown)[None]
        out = model.generate(
            given, attention_mask=torch.ones_like(given), max_new_tokens=5, do_sample=False, pad_token_id=0
        )
        written = Letters().decode(out[0, given.shape[1] :].tolist())
        assert answer == written.strip()
        shown += f"{written}</>"


def test_the_end_of_an_answer_is_that_of_the_template_whether_the_model_said_it_or_not():
    model, prompt = tiny_llama(layers=1), compress(tiny_llama(layers=1), ChatLetters(), CHAT, size=400)
    plain = ChatSession(model, ChatLetters(), prompt)
    plain.say("who?", tokens=3)
    spoken = plain.history[-3:].tolist()
    plain.say("why?", tokens=1)
    ending = ChatSession(model, ChatLetters(), prompt)
    model.generation_config.eos_token_id = [spoken[2]]
    ending.say("who?", tokens=3)
    assert ending.history[-2:].tolist() == spoken[:2]
    ending.say("why?", tokens=1)
    asked = "</><user>why?</><assistant>"
    for session in (plain, ending):
        assert Letters().decode(session.history.tolist())[:-1].endswith(asked)


def test_old_turns_are_folded_when_the_budget_is_full():
    model = tiny_llama(layers=2)
    session = ChatSession(model, Letters(), compress(model, Letters(), TEXT, size=12), budget=40, folded=8)
    offsets = []
    for _ in range(4):
        session.say("what is it that you say?", tokens=6)
        assert session.tokens <= 40
        offsets.append(session.prompt.position_offset)
    assert session.folds >= 2
    assert session.prompt.size == 12 + 8 * session.folds
    assert offsets == sorted(offsets)
    assert offsets[-1] == len(TEXT) + 4 * 30 - session.tokens
    assert not any("attangent" in name for module in model.modules() for name in vars(module))


@pytest.mark.parametrize("tokenizer", [Letters(), ChatLetters()])
def test_turns_are_folded_to_an_eighth_unless_told_otherwise(tokenizer):
    session = ChatSession(tiny_llama(layers=1), tokenizer, budget=40, reader=BareReader())
    session.say("x" * 400, tokens=2)
    assert session.folds == 1
    first = session.prompt
    assert first.size == first.position_offset // 8
    session.say("y" * 60, tokens=2)
    assert session.folds == 2
    assert session.prompt.size == first.size + 32


def test_a_fold_that_keeps_everything_changes_nothing():
    model = tiny_llama(layers=2)
    prompt = compress(model, Letters(), TEXT, size=400)
    plain = ChatSession(model, Letters(), prompt)
    folding = ChatSession(model, Letters(), prompt, budget=1000, folded=500)
    assert plain.say("who are you?", 4) == folding.say("who are you?", 4)
    folding._fold()
    assert folding.tokens == 0
    assert plain.say("and why?", 6) == folding.say("and why?", 6)


def test_a_chat_is_loaded_from_a_folder(tmp_path):
    model = tiny_llama(layers=1)
    found = compress(model, ChatLetters(), CHAT, size=12)
    found.save(model, tmp_path)
    loaded = ChatSession.load(tiny_llama(layers=1), ChatLetters(), tmp_path)
    assert loaded.say("who?", 5) == ChatSession(model, ChatLetters(), found).say("who?", 5)


def test_a_budget_below_what_is_folded_is_refused():
    with pytest.raises(AttangentError, match="budget is 5"):
        ChatSession(tiny_llama(layers=1), Letters(), budget=5)


def test_a_bare_model_chats_by_its_template_or_line_by_line():
    model = tiny_llama(layers=1)
    chat = ChatSession(model, ChatLetters(), reader=BareReader())
    chat.say("who?", 1)
    chat.say("why?", 1)
    shown = Letters().decode(chat.history.tolist())
    assert shown.startswith("<user>who?</><assistant>")
    assert shown[:-1].endswith("</><user>why?</><assistant>")
    lines = ChatSession(model, Letters(), reader=BareReader())
    lines.say("who?", 1)
    lines.say("why?", 1)
    shown = Letters().decode(lines.history.tolist())
    assert shown.startswith("who?\n")
    assert shown[:-1].endswith("\nwhy?\n")


def test_drawn_text_depends_on_the_seed_alone():
    model, ids = tiny_llama(layers=1), torch.arange(9)
    one, same, other = (generate_text(model, Letters(), ids, 12, 1.0, seed) for seed in (1, 1, 2))
    assert one == same != other
    assert generate_text(model, Letters(), ids, 12) == generate_text(model, Letters(), ids, 12, seed=5)
