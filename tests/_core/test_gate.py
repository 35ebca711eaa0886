"""The gate before public entries."""

import pickle
from dataclasses import dataclass
from typing import Self

import numpy as np
import pytest
import torch
from torch import Tensor

import attangent.kernels
from attangent import AttangentError, attention, audit, diffusion, forecast, icl, stages
from attangent._core.gate import checked, guard, guard_arrays
from attangent.attention.features import Calibrated, Elu, Taylor
from attangent.kernels.modules import Optimiser, TangentModel


def scaled(x: Tensor, by: float = 2.0, *, name: str | None = None) -> Tensor:
    return x * by


@dataclass(frozen=True)
class Pair:
    left: int
    right: int = 0

    def joined(self, other: Self | None) -> int:
        return self.left + (other.left if other else 0)

    @classmethod
    def of(cls, text: str) -> "Pair":
        return cls(len(text))


def test_what_fits_goes_through_unchanged():
    x = torch.ones(2)
    assert torch.equal(checked(scaled)(x, 3, name=None), 3 * x)
    assert torch.equal(checked(scaled)(x=x), 2 * x)


@pytest.mark.parametrize(
    ("args", "named", "message"),
    [
        (([1.0],), {}, "x is list, expected a tensor"),
        ((None,), {}, "x is None, expected a tensor"),
        ((torch.ones(2), "3"), {}, "by is '3', expected a number"),
        ((torch.ones(2),), {"name": 3}, "name is 3, expected a text or None"),
        ((torch.ones(2), 10**400), {}, "by is a whole number of 1329 bits"),
    ],
)
def test_other_kinds_are_refused_with_what_was_expected(args, named, message):
    with pytest.raises(AttangentError, match=message):
        checked(scaled)(*args, **named)


def test_array_likes_are_converted_only_where_the_room_says_so():
    assert torch.equal(
        checked(scaled, arrays=True)([1.0, 2.0]), torch.tensor([2.0, 4.0], dtype=torch.float64)
    )
    assert torch.equal(checked(scaled, arrays=True)(x=np.ones(2)), torch.full((2,), 2.0, dtype=torch.float64))
    with pytest.raises(AttangentError, match="x is 'abc', expected a tensor or an array of numbers"):
        checked(scaled, arrays=True)("abc")


UNUSABLE = [
    torch.ones(2).to(torch.float8_e4m3fn),
    torch.eye(2).to_sparse(),
    torch.ones(2, dtype=torch.complex64),
]


@pytest.mark.parametrize("x", UNUSABLE)
def test_tensors_without_usable_numbers_are_named(x):
    def product(x: Tensor) -> Tensor:
        return torch.linalg.cholesky(x + torch.full((2, 2), object()))  # pyright: ignore

    with pytest.raises(AttangentError, match="expected a dense tensor with numbers in it"):
        checked(product)(x)


def test_sizes_that_no_memory_holds_are_refused():
    def zeros(n: int) -> Tensor:
        return torch.zeros(n, dtype=torch.float64)

    with pytest.raises(AttangentError, match="zeros needs more memory than there is"):
        checked(zeros)(2**55)


def test_what_the_system_refuses_is_said_in_words():
    def read(path: str) -> str:
        with open(path) as file:
            return file.read()

    with pytest.raises(AttangentError, match=r"No such file or directory \(no/such\)"):
        checked(read)("no/such")


@pytest.mark.parametrize(
    ("slip", "kind"),
    [
        (lambda: 1 / 0, ZeroDivisionError),
        (lambda: torch.ones(2, 3) @ torch.ones(2, 3), RuntimeError),
        (lambda: torch.ones(2)[5], IndexError),
        (lambda: np.ones(2).reshape(3), ValueError),
    ],
)
def test_errors_of_our_own_making_stay_what_they_are(slip, kind):
    """Also about shapes: a slip of ours must not look like the caller's."""

    def wrong(x: Tensor) -> object:
        return slip()

    with pytest.raises(kind) as raised:
        checked(wrong)(torch.ones(1))
    assert not isinstance(raised.value, AttangentError)


def test_a_guarded_room_covers_functions_constructors_and_methods():
    room = {"__all__": ["Pair", "scaled"], "Pair": Pair, "scaled": scaled}
    guard(room)
    assert Pair(1).joined(Pair(2)) == 3
    assert Pair.of("abc") == Pair(3)
    for call in (lambda: Pair("1"), lambda: Pair(1).joined(3), lambda: Pair.of(3), lambda: room["scaled"](3)):
        with pytest.raises(AttangentError, match="expected"):
            call()
    guard_arrays(room)
    with pytest.raises(AttangentError):
        room["scaled"]([1.0])  # what is guarded already stays as it is


def test_guarded_functions_and_classes_can_be_sent_to_workers():
    for thing in (attangent.kernels.unit_data, attangent.kernels.SoftmaxNetwork, attention.ntk_attention):
        assert pickle.loads(pickle.dumps(thing)) is thing


def test_torch_compile_goes_past_the_gate():
    compiled = torch.compile(checked(scaled), backend="eager", fullgraph=True)
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))


def _tangent():
    return attangent.kernels.SoftmaxNetwork(3, 2, m=8).tangent(torch.ones(4, 3, dtype=torch.float64))


def _tangent_model():
    return TangentModel.of(torch.nn.Linear(3, 2), torch.eye(3))


def _trained_on(x):
    return forecast.train_attention(forecast.AttentionModel(3, 4), x, torch.ones(4), steps=1, rate=0.1)


def _train_tangent(rates):
    targets, loss = torch.ones(3, 2), torch.nn.functional.mse_loss
    return _tangent_model().train(targets, loss, Optimiser(1), rates, [[0, 1]], [1])


def _operator():
    return attangent.kernels.SoftmaxNetwork(3, 2, m=8).kernel_operator(torch.eye(3))


def _state():
    return attention.PrefixState.zero(Elu(4), heads=2)


def _dictionary():
    return icl.Dictionary.random(K=6, N=4, d=3, m=2, tau=0.1)


DO_NOT_FIT = {
    "features without an axis": lambda: Taylor(4, 2)(torch.tensor(1.0)),
    "features of truth values": lambda: Elu(4)(torch.ones(3, 4, dtype=torch.bool)),
    "features of another size": lambda: Elu(4)(torch.ones(3, 5)),
    "chunks": lambda: attention.PrefixState.from_chunks(Elu(4), [torch.ones(2, 4)]),
    "values": lambda: attention.PrefixState.fit(Elu(4), torch.ones(5, 4), torch.ones(3, 4), torch.ones(6, 4)),
    "pull": lambda: _tangent().pull_back(torch.ones(3, 2)),
    "push": lambda: _tangent().push_forward(torch.ones(3, 7)),
    "gap": lambda: attangent.kernels.log_gap(torch.tensor(1.0), torch.tensor(1.0)),
    "theta": lambda: _tangent_model().named(torch.ones(7)),
    "points": lambda: attangent.kernels.tangent_kernel(torch.nn.Linear(3, 2), torch.ones(4, 5)),
    "points of another kind": lambda: _tangent_model().true_outputs(torch.ones(4, 3).double(), torch.ones(8)),
    "no parameters": lambda: attangent.kernels.tangent_kernel(torch.nn.Linear(3, 2), torch.eye(3), params=[]),
    "weights": lambda: forecast.ResidualSSM(d=3).linear_risk(torch.ones(4), False),
    "matrix": lambda: icl.clean_risk(_dictionary(), torch.ones(4, 5)),
    "jobs": lambda: attangent.kernels.SoftmaxNetwork(3, 2, m=8).kernel(torch.eye(3), jobs=2**62),
    "answers": lambda: icl.InContextTransformer(3, 2)(torch.ones(4, 3), torch.ones(2, 5), torch.ones(1, 3)),
    "means": lambda: diffusion.GaussianMixture(torch.ones(2), torch.ones(2), torch.ones(2)),
    "posterior mean": lambda: diffusion.ForwardProcess().score(torch.ones(3, 2), 0.5, torch.ones(4, 2)),
    "a number for a series": lambda: forecast.errors_by_step(forecast.Persistence(4, 2), 7),
    "texts for a series": lambda: forecast.errors_by_step(forecast.Persistence(4, 2), np.array(["a", "b"])),
    "no horizons": lambda: forecast.compare([forecast.Persistence(4, 2)], [], [], 4),
    "points without an axis": lambda: _trained_on(torch.tensor(1.0)),
    "a probability above 1": lambda: attangent.kernels.concentration_bound(8, 1.0, 2**31),
    "a probability of 0": lambda: attangent.kernels.concentration_bound(8, 1.0, -0.0),
    "rates for other weights": lambda: _train_tangent(np.ones((3, 4))),
    "no rates": lambda: _train_tangent([]),
    "rates in words": lambda: _train_tangent("fast"),
    "a ridge below 0": lambda: _operator().preconditioner(-(10**30)),
    "values of other heads": lambda: _state().error(
        torch.ones(2, 5, 4), torch.ones(2, 5, 4), torch.ones(3, 4)
    ),
    "tokens of another size": lambda: _state().error(
        *[torch.ones(2, 5, 4)] * 3, token_keys=torch.ones(2, 3, 5), token_values=torch.ones(2, 3, 4)
    ),
    "a deviation without a square": lambda: diffusion.GaussianMixture.around(torch.ones(3, 2), 1e300),
    "units without heads": lambda: Calibrated(Elu(4), torch.tensor(2.0), torch.ones(2), torch.ones(2)),
    "rules in a matrix": lambda: icl.compare_to_ridge(
        lambda *given: None, _dictionary(), rules=np.ones((3, 4))
    ),
    "steps by name": lambda: attangent.kernels.descend(
        attangent.kernels.SoftmaxNetwork(3, 2, m=8), torch.eye(3), torch.ones(3, 2), 0.1, 2, keep={"a": 1}
    ),
    "a truth value for a count": lambda: icl.IN_DOMAIN.second_moment(True),
    "labels without a square": lambda: icl.InContextTransformer(3, 2)(
        torch.ones(4, 3), torch.full((2, 4), 1e30), torch.ones(1, 3)
    ),
    "a class for a tokenizer": lambda: stages.minus_loss(int, ["a"]),
    "half a letter": lambda: stages.minus_loss(lambda text, **options: {}, ["\udcff"]),
    "a score where there is no density": lambda: diffusion.ForwardProcess().score(
        torch.ones(3, 2), 0, torch.ones(3, 2)
    ),
    "time before 0": lambda: diffusion.LinearSchedule(0.1, 1.0, 1.0).integral(torch.tensor(-1e300)),
    "a sigma without a square": lambda: attangent.kernels.exp_limit(torch.eye(3).double(), sigma=1e300),
    "no rows": lambda: attangent.kernels.require_unit_ball("X", torch.zeros(0, 4)),
    "numbers for ids": lambda: audit.run(range(3)),
    "tokens without numbers": lambda: (
        icl.InContextRidge().fit(np.eye(4), np.ones(4)).predict(torch.zeros(3, 4, device="meta"))
    ),
    "tokens of a terabyte": lambda: (
        icl.InContextRidge().fit(np.eye(4), np.ones(4)).predict(torch.zeros(1).expand(2**38))
    ),
    "a list too long": lambda: attention.RaggedState.of(torch.zeros(1).expand(2**38), [], []),
}


@pytest.mark.parametrize("name", DO_NOT_FIT)
def test_what_does_not_fit_is_refused_at_the_entry(name):
    """Each of these once ended in an exception of torch's, or took the memory."""
    with pytest.raises(AttangentError):
        DO_NOT_FIT[name]()


def test_the_tangent_goes_along_with_parameters_of_any_precision():
    model = _tangent_model()
    theta = torch.ones(2, 8, dtype=torch.float64)
    assert torch.equal(model.along(torch.eye(3), theta), model.along(torch.eye(3), theta.float()))
    assert model.along(torch.eye(3), theta[0]).shape == (3, 2)


def test_whole_numbers_and_tensors_with_gradients_are_numbers_too():
    assert diffusion.Estimate.of([1, 3]).mean == 2.0
    y = torch.ones(4, requires_grad=True)
    assert np.allclose(icl.InContextRidge(tau=0.0).fit(np.eye(4), y).coef_, 1.0)
