"""What is handed to compiled code, and what is left to torch."""

from functools import partial

import pytest
import torch

from attangent.attention import PrefixState, ntk_attention
from attangent.attention.backends.cpu import library, prepare
from attangent.attention.backends.cpu.library import CallFields, load
from attangent.attention.backends.cpu.prepare import is_right
from attangent.attention.features import Elu
from attangent.attention.masks import Mask
from tests.attention.cases import make_map, normal

compiled = pytest.mark.skipif(prepare.trusted() is None, reason="there was no C compiler at installation")


def weights(name="elu", heads=2, dim=8):
    features = make_map(name, dim, heads).float()
    return features, torch.ones(heads, features.size, dim), torch.ones(heads, features.size)


def prepared(features, Z, mass):
    return prepare.prepare(features, Z, mass, 1.0, 60.0)


@compiled
@pytest.mark.parametrize("name", ["elu", "anchors", "learned-elu", "learned-gelu"])
def test_maps_with_a_form_are_prepared(name):
    assert prepared(*weights(name)) is not None


@compiled
@pytest.mark.parametrize("name", ["printed", "taylor-2", "positive-random", "anchors-softcap"])
def test_other_maps_are_left_to_torch(name):
    assert prepared(*weights(name)) is None


@compiled
def test_weights_of_other_kinds_are_left_to_torch():
    features, Z, mass = weights()
    assert prepared(features, Z.double(), mass) is None
    assert prepared(features, Z, mass.double()) is None
    assert prepared(features, Z.to("meta"), mass) is None
    assert prepared(make_map("learned-gelu", 8, 3).float(), *weights("learned-gelu")[1:]) is None


def test_rows_of_other_kinds_are_left_to_torch():
    rows = torch.zeros(1, 2, 3, 8)
    assert prepare.takes(rows, rows)
    assert prepare.takes(rows.bfloat16(), rows.bfloat16())
    for other in (rows.double(), rows.half(), rows.to("meta"), rows.transpose(2, 3)):
        assert not prepare.takes(other)
    assert not prepare.takes(rows, rows.bfloat16())
    assert not prepare.takes(rows, rows.mT)


@compiled
def test_tokens_that_torch_attends_to():
    code, nothing = prepare.trusted(), Mask()
    q, k, v = (normal(1, 2, 9, 16, seed=seed).float() for seed in (1, 2, 3))
    takes = partial(prepare.takes_tokens, code._replace(takes_tokens=True))
    assert all(takes(q, k, v, mask) for mask in (nothing, Mask(causal=True)))
    assert not prepare.takes_tokens(code._replace(takes_tokens=False), q, k, v, nothing)
    assert takes(q, k, v, Mask(bias=torch.zeros(1, 1, 9, 9)))
    assert not takes(q, k, v, Mask(bias=torch.zeros(1, 1, 9, 1)))
    assert not takes(q, k, v, Mask(bias=torch.zeros(1, 1, 9, 9).mT))
    assert takes(q.bfloat16(), k.bfloat16(), v.bfloat16(), nothing)
    assert not takes(q.half(), k.half(), v.half(), nothing)
    assert not takes(q[:, :, :4], k, v, nothing), "few queries"
    assert not takes(q[..., :8], k[..., :8], v[..., :8], nothing), "no whole vector"
    assert not takes(*(t.repeat(1, 1, 1, 17) for t in (q, k, v)), nothing), (
        "a larger head than there is room for"
    )
    assert not takes(q, k.mT.contiguous().mT, v, nothing)
    assert not takes(q, k, v.to("meta"), nothing)


def test_tokens_that_torch_differentiates(monkeypatch):
    q, k = (normal(1, 2, 9, 16, seed=seed).float() for seed in (1, 2))
    assert prepare.differentiates_tokens(q, k)
    assert not prepare.differentiates_tokens(q[..., :9], k[..., :9]), "no whole vector"
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    assert not prepare.differentiates_tokens(q, k), "a thread without a head"


@compiled
def test_exported_graphs_hold_operations_of_torch():
    state = PrefixState.from_prefix(Elu(8), normal(2, 9, 8).float(), normal(2, 9, 8, seed=1).float())
    q = normal(1, 2, 5, 8, seed=2).float()
    exported = torch.export.export(_Attend(state), (q,)).module()
    torch.testing.assert_close(exported(2 * q), ntk_attention(2 * q, 2 * q, 2 * q, state))


class _Attend(torch.nn.Module):
    def __init__(self, state):
        super().__init__()
        self.state = state

    def forward(self, x):
        return ntk_attention(x, x, x, self.state)


@compiled
@pytest.mark.parametrize("entry", ["forward", "backward"])
def test_code_that_gives_wrong_numbers_is_left_alone_with_a_warning(monkeypatch, entry):
    nothing = library.load()._replace(**{entry: lambda *given: 0})
    monkeypatch.setattr(prepare, "load", lambda: nothing)
    with pytest.warns(RuntimeWarning, match="gives wrong numbers on this machine"):
        assert prepare.trusted.__wrapped__() is None


def test_without_compiled_code_torch_is_taken(monkeypatch):
    monkeypatch.setattr(prepare, "trusted", lambda: None)
    assert prepared(*weights()) is None


@compiled
def test_the_code_here_is_right():
    assert is_right(load())


@compiled
@pytest.mark.parametrize("broken", ["forward", "backward"])
@pytest.mark.parametrize("kind", range(4))
def test_an_error_in_one_pass_of_one_kind_is_seen(broken, kind):
    right = load()

    def wrong(fields, addresses, parallel):
        call = CallFields.from_buffer_copy(fields)
        if call.kind == kind:
            call.gain *= 1.01
        return getattr(right, broken)(bytes(call), addresses, parallel)

    assert not is_right(right._replace(**{broken: wrong}))


@compiled
@pytest.mark.parametrize("broken", ["forward", "backward"])
@pytest.mark.parametrize("bfloat", [0, 1])
def test_an_error_in_the_tokens_of_one_dtype_is_seen(broken, bfloat):
    right = load()
    if not right.takes_tokens:
        pytest.skip("this processor leaves tokens to torch")

    def wrong(fields, addresses, parallel):
        call = CallFields.from_buffer_copy(fields)
        if call.keys and call.bfloat == bfloat:
            call.scale *= 1.5
        return getattr(right, broken)(bytes(call), addresses, parallel)

    assert not is_right(right._replace(**{broken: wrong}))
