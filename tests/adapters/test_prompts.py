import pytest
import torch

from attangent import AttangentError
from attangent.adapters import NTKConfig, attach, states_of
from tests.adapters.models import tiny


def ids(*shape, seed=0):
    return torch.randint(3, 61, shape, generator=torch.Generator().manual_seed(seed))


def behind_prompt(model, prompt, tokens):
    with torch.no_grad():
        return model(input_ids=torch.cat([prompt, tokens], dim=1)).logits[:, prompt.shape[1] :]


@pytest.mark.parametrize("units", ["raw", "calibrated"])
@pytest.mark.parametrize("per", ["query", "kv"])
@pytest.mark.parametrize("name", ["llama", "qwen3", "gpt2"])
def test_as_many_anchors_as_tokens_are_the_prompt_itself(name, units, per):
    """Keys and values of every layer are the prompt's own, as if it stood in front."""
    model, prompt, tokens = tiny(name), ids(1, 6), ids(1, 5, seed=1)
    exact = behind_prompt(model, prompt, tokens)
    config = NTKConfig(features="anchors", units=units, size=6, init="text", per=per, position_offset=6)
    calibration = {"input_ids": ids(3, 9, seed=2)} if units == "calibrated" else None
    attach(model, config, prompt={"input_ids": prompt}, calibration=calibration)
    with torch.no_grad():
        found = model(input_ids=tokens).logits
    assert torch.allclose(found, exact, rtol=1e-3, atol=1e-4 * exact.abs().max().item())


def test_fewer_anchors_come_close():
    model, prompt, tokens = tiny("llama"), ids(1, 12), ids(1, 5, seed=1)
    exact = behind_prompt(model, prompt, tokens)
    with torch.no_grad():
        bare = model(input_ids=tokens).logits
    attach(
        model,
        NTKConfig(features="anchors", size=9, init="text", position_offset=12),
        prompt={"input_ids": prompt},
        calibration={"input_ids": prompt},
    )
    with torch.no_grad():
        found = model(input_ids=tokens).logits
    assert (found - exact).abs().mean() < (bare - exact).abs().mean()


def test_other_maps_sum_the_prompt_by_equation_7():
    model = attach(tiny("llama"), NTKConfig(features="elu", init="text"), prompt={"input_ids": ids(1, 30)})
    assert all((state.k > 0).all() and state.Z.abs().max() > 0 for state in states_of(model).values())


def test_a_prompt_shorter_than_the_anchors_is_refused_and_nothing_stays():
    model = tiny("llama")
    with pytest.raises(AttangentError, match="the prompt has 3 tokens"):
        attach(model, NTKConfig(features="anchors", init="text"), prompt={"input_ids": ids(1, 3)})
    assert not any("attangent" in name for name in model.state_dict())
