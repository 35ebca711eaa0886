"""Compressing from end to end: exact where it can be, the same for the same seed, and what is refused."""

import pytest
import torch

import attangent
from attangent import AttangentError
from attangent.compression.entry import compress
from tests.compression.cases import Letters, tiny_llama

TEXT = "some text that is long enough to be worth compressing, and then a little more. " * 2


def tokens(text):
    return torch.tensor(Letters()(text)["input_ids"])[None]


def behind(model, prompt, text):
    with torch.no_grad():
        return model(torch.cat([tokens(prompt), tokens(text)], dim=1)).logits[:, len(prompt) :]


@pytest.fixture
def model():
    return tiny_llama()


def test_a_prompt_no_longer_than_the_size_is_kept_exactly(model):
    expected = behind(model, "short", "question")
    found = attangent.compress(model, Letters(), "short", size=8)
    assert found.exact
    assert found.size == 5
    found.attach(model)
    torch.testing.assert_close(model(tokens("question")).logits, expected, atol=1e-4, rtol=1e-4)
    attangent.detach(model)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prompt": ""}, "prompt is empty"),
        ({"size": 0}, "size is 0"),
        ({"size": 4}, "always kept"),
        ({"method": "magic"}, "expected one of recall, anchors, plain, select, merge, elu"),
        ({"method": "elu", "distill": 3}, "no virtual tokens"),
        ({"distill": -1}, "steps is -1"),
        ({"tolerance": 1.5}, "tolerance is 1.5"),
        ({"tokenizer": Letters(999)}, "belongs to another model"),
        ({"calibration": []}, "no calibration text"),
    ],
)
def test_what_cannot_be_compressed_is_refused(model, changes, message):
    given = {"tokenizer": Letters(), "prompt": TEXT} | changes
    with pytest.raises(AttangentError, match=message):
        compress(model, **given)


def test_a_model_with_adapters_is_refused(model):
    compress(model, Letters(), "short").attach(model)
    with pytest.raises(AttangentError, match="adapters attached"):
        compress(model, Letters(), TEXT)


def test_the_same_seed_gives_the_same_states(model):
    one, same = (compress(model, Letters(), TEXT, size=10, distill=2, seed=3) for _ in range(2))
    other = compress(model, Letters(), TEXT, size=10, distill=2, seed=4)
    for name, state in one.states.items():
        assert torch.equal(state.Z, same.states[name].Z)
        assert not torch.equal(state.Z, other.states[name].Z)
    assert one.distilled == 2


def test_every_stage_reports_its_progress(model):
    seen = []
    compress(model, Letters(), TEXT, size=10, distill=2, progress=lambda *stage: seen.append(stage))
    assert list(dict.fromkeys(name for name, _, _ in seen)) == [
        "reading",
        "sampling",
        "scoring",
        "fitting",
        "distilling",
    ]
    assert seen[-1] == ("distilling", 2, 2)
