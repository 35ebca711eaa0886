import copy

import pytest
import torch

from attangent import AttangentError
from attangent.adapters import (
    NTKConfig,
    attach,
    detach,
    disabled,
)
from tests.adapters.models import inputs, logits, tiny


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_an_offset_moves_the_positions_of_the_tokens(name):
    model, given = tiny(name), inputs(name)
    given = {key: value[:1] for key, value in given.items()}
    positions = torch.arange(9)[None]
    with torch.no_grad():
        moved = model(**given, position_ids=positions + 20).logits
        plain = model(**given).logits
    attach(model, NTKConfig(share=0, position_offset=20))
    assert torch.equal(logits(model, given), moved)
    with torch.no_grad():
        assert torch.equal(model(**given, position_ids=positions).logits, moved)
    options = {"max_new_tokens": 4, "do_sample": False, "eos_token_id": None}
    assert torch.equal(
        model.generate(**given, **options), model.generate(**given, **options, use_cache=False)
    )
    with disabled(model):
        assert torch.equal(logits(model, given), plain)
    assert torch.equal(logits(copy.deepcopy(model), given), moved)
    twin = detach(copy.deepcopy(model))
    assert torch.equal(logits(twin, given), plain)
    assert torch.equal(logits(model, given), moved)


def test_an_offset_is_refused_where_nothing_has_positions():
    with pytest.raises(AttangentError, match="position_offset is 5"):
        attach(tiny("t5"), NTKConfig(position_offset=5))


def test_an_offset_beyond_the_table_of_positions_is_refused():
    with pytest.raises(AttangentError, match="position_offset is 64, but the model's table ends at 64"):
        attach(tiny("gpt2"), NTKConfig(position_offset=64))
