"""What every network of the room must do.

A network's test inherits this and says how the network is made and what it computes, in the slow and obvious
way; autograd does the rest. Closed forms are held to 1e-10 of the size of the summands: where a softmax
saturates, terms of size m |a| cancel to almost nothing, and no algorithm keeps digits of the difference that
its inputs do not have. `summands` is that size; away from saturation it is the size of the answer.
"""

import pickle
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from attangent import AttangentError
from attangent.kernels import TwoLayerNetwork, predict_training, unit_data
from attangent.kernels.tangent import Tangent

TOLERANCE = 1e-10


@contextmanager
def small_blocks() -> Iterator[None]:
    """Within it every algorithm streams over blocks of 64 neurons and tiles of a few pairs."""
    sizes = {"gram_algorithms._BLOCK_BYTES": 1, "gram_algorithms._PAIR_BLOCK_BYTES": 1}
    sizes |= {"gram_algorithms._TILE_ROWS": 3, "tangent._BLOCK_BYTES": 1}
    with ExitStack() as stack:
        for name, size in sizes.items():
            stack.enter_context(patch(f"attangent.kernels.{name}", size))
        yield


class NetworkConformance:
    """Subclasses define `make` and `outputs`."""

    reaches = (1e-3, 1.0, 30.0, 1000.0)
    """Factors on the points: the last makes logits of thousands."""

    def make(self, d_in: int, d_out: int, m: int, **settings) -> TwoLayerNetwork:
        raise NotImplementedError

    def outputs(self, network: TwoLayerNetwork, W: Tensor, X: Tensor) -> Tensor:
        """F (n, d_out) as the paper writes it, differentiable in W."""
        raise NotImplementedError

    def summands(self, tangent: Tangent) -> Tensor:
        """|J| before anything cancels (d_out n, p m)."""
        everything = slice(0, tangent.m)
        size = tangent.values(everything).abs()[:, None, :] + tangent.mu.abs().T[:, :, None]
        through = torch.einsum("lir,ip->lipr", size, tangent.inputs.abs())
        if tangent.direct is not None:
            through = through + torch.eye(tangent.d_out).double()[:, None, :, None]
        return (tangent.gate(everything)[None, :, None, :] * through).flatten(0, 1).flatten(1)

    # What a subclass need not touch.

    def jacobian(self, network: TwoLayerNetwork, X: Tensor) -> Tensor:
        J = torch.func.jacrev(lambda W: self.outputs(network, W, X))(network.W)  # (n, d_out, p, m)
        return J.transpose(0, 1).flatten(0, 1).flatten(1)

    def example(self, n: int = 4, m: int = 12, reach: float = 1.0, **settings):
        network = self.make(3, 2, m, **({"init": "independent", "seed": 1} | settings))
        X, Y = unit_data(n, network.d_in, network.d_out, seed=2)
        return network, reach * X, Y

    def test_closed_forms_are_those_of_autograd(self):
        @given(st.data())
        def check(data):
            self.check_closed_forms(*self.draw(data))

        check()

    def draw(self, data):
        """A network and points: one or many, with and without duplicates, with logits small and huge."""
        network = self.make(
            data.draw(st.integers(1, 4)),
            data.draw(st.integers(1, 3)),
            2 * data.draw(st.integers(1, 12)),
            init=data.draw(st.sampled_from(["symmetric", "independent"])),
            seed=data.draw(st.integers(0, 5)),
        )
        n, seed = data.draw(st.integers(1, 5)), data.draw(st.integers(0, 1))
        X, Y = unit_data(n, network.d_in, network.d_out, seed)
        twice = [*range(n), 0] if data.draw(st.booleans()) else range(n)
        return network, data.draw(st.sampled_from(self.reaches)) * X[list(twice)], Y[list(twice)]

    def check_closed_forms(self, network, X, Y):
        J, size = self.jacobian(network, X), self.summands(network.tangent(X))
        loss = torch.func.grad(lambda W: 0.5 * (self.outputs(network, W, X) - Y).square().sum())(network.W)
        residual = (network.forward(X) - Y).abs().T.reshape(-1)
        close(network.gradient(X, Y).flatten(), loss.flatten(), size.T @ residual)
        for method in ("gemm", "syrk", "pairs"):
            close(network.kernel(X, method=method), J @ J.T / network.width, size @ size.T / network.width)

    @pytest.mark.parametrize("reach", [1.0, 1000.0])
    def test_forward_is_the_formula(self, reach):
        network, X, _ = self.example(reach=min(reach, self.reaches[-1]))
        expected = self.outputs(network, network.W, X)
        assert (network.forward(X) - expected).abs().max() <= 1e-12 * expected.abs().max() + 1e-13 * network.m

    @pytest.mark.parametrize("method", ["auto", "gemm", "pairs"])
    def test_test_train_kernel_pairs_the_jacobians(self, method):
        network, X, _ = self.example()
        X2, _ = unit_data(3, network.d_in, 1, seed=7)
        expected = self.jacobian(network, X) @ self.jacobian(network, X2).T / network.width
        given = network.kernel(X, X2, method=method)
        assert given.shape == (4 * network.d_out, 3 * network.d_out)
        assert (given - expected).abs().max() <= 1e-12 * expected.abs().max()

    @pytest.mark.parametrize("method", ["gemm", "syrk", "pairs"])
    def test_blocks_of_neurons_add_up(self, method):
        network, X, Y = self.example(n=7, m=333)
        with small_blocks():
            kernel, gradient, forward = (
                network.kernel(X, method=method),
                network.gradient(X, Y),
                network.forward(X),
            )
            operator = network.kernel_operator(X)
            product = torch.as_tensor(operator.matvec(Y.T.reshape(-1).numpy()))
        J = self.jacobian(network, X)
        expected = J @ J.T / network.width
        assert (kernel - expected).abs().max() <= 1e-12 * expected.abs().max()
        torch.testing.assert_close(gradient, network.gradient(X, Y), rtol=1e-11, atol=1e-11)
        torch.testing.assert_close(forward, network.forward(X), rtol=1e-11, atol=1e-11)
        torch.testing.assert_close(product, expected @ Y.T.reshape(-1), rtol=1e-11, atol=1e-11)

    @pytest.mark.parametrize("memory_limit", [2 * 2**30, 26 * 2**20])
    def test_operator_multiplies_like_the_matrix(self, memory_limit):
        network, X, _ = self.example(m=10_000 if memory_limit < 2**30 else 12)
        X2 = X[:3] + 0.1
        dense = network.kernel(X, X2).numpy()
        operator = network.kernel_operator(X, X2, memory_limit=memory_limit)
        columns, rows = torch.eye(dense.shape[1]).double().numpy(), torch.eye(dense.shape[0]).double().numpy()
        assert operator.shape == dense.shape
        assert abs(operator @ columns - dense).max() <= 1e-12 * abs(dense).max()
        assert abs(operator.T @ rows - dense.T).max() <= 1e-12 * abs(dense).max()

    def test_push_and_pull_are_adjoint(self):
        network, X, Y = self.example()
        tangent = network.tangent(X)
        U = torch.randn(network.W.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        one, other = (U * tangent.pull_back(Y)).sum(), (tangent.push_forward(U) * Y).sum()
        assert abs(one - other) <= 1e-12 * abs(one)
        J = self.jacobian(network, X)
        torch.testing.assert_close(tangent.push_forward(U).T.reshape(-1), J @ U.reshape(-1))

    def test_symmetric_initialisation_is_silent(self):
        network, X, _ = self.example(init="symmetric")
        assert network.forward(X).abs().max() <= 1e-12 * network.m

    def test_kernel_is_symmetric_and_positive_semi_definite(self):
        network, X, _ = self.example()
        H = network.kernel(X)
        assert (H - H.T).abs().max() <= 1e-13 * H.abs().max()
        eigenvalues = torch.linalg.eigvalsh(H)
        assert eigenvalues[0] >= -1e-12 * eigenvalues[-1]

    def test_duplicate_points_make_the_kernel_singular(self):
        network, X, _ = self.example()
        eigenvalues = torch.linalg.eigvalsh(network.kernel(torch.cat([X, X[:1]])))
        assert eigenvalues[0].abs() <= 1e-12 * eigenvalues[-1]

    def test_other_weights_leave_the_network_alone(self):
        network, X, _ = self.example()
        before = network.forward(X)
        other = network.with_weights(network.W + 1)
        assert torch.equal(network.forward(X), before)
        assert not torch.equal(other.W, network.W)
        assert other.a is network.a

    def test_seeds_give_the_same_weights_again(self):
        one, same, other = (self.make(3, 2, 8, seed=seed) for seed in (3, 3, 4))
        assert torch.equal(one.W, same.W)
        assert torch.equal(one.a, same.a)
        assert not torch.equal(one.W, other.W)

    def test_a_pickled_network_is_the_same(self):
        network, X, _ = self.example()
        assert torch.equal(pickle.loads(pickle.dumps(network)).kernel(X), network.kernel(X))

    @pytest.mark.parametrize("method", ["gemm", "syrk", "pairs"])
    def test_single_precision(self, method):
        network, X, Y = self.example(dtype=torch.float32)
        exact = network.kernel(X).double()
        double = self.make(3, 2, 12, init="independent", seed=1)
        given = network.kernel(X, method=method)
        assert given.dtype == torch.float32
        assert network.gradient(X, Y).dtype == torch.float32
        assert network.kernel_operator(X).dtype == "float32"
        assert (given.double() - double.kernel(X)).abs().max() <= 1e-5 * exact.abs().max()

    def test_descent_makes_the_step_of_the_gradient(self):
        network, X, Y = self.example()
        rate = 0.1 / (network.width * torch.linalg.eigvalsh(network.kernel(X))[-1].item())
        run = network.descend(X, Y, rate, 5, keep=[1])
        torch.testing.assert_close(run.snapshots[1].W, network.W - rate * network.gradient(X, Y))
        assert run.steps == 5
        assert (run.loss[1:] < run.loss[:-1]).all()

    def test_first_steps_are_those_the_kernel_predicts(self):
        network, X, Y = self.example(m=2000, init="symmetric")
        H = network.kernel(X)
        rate = 0.01 / (network.width * torch.linalg.eigvalsh(H)[-1].item())
        run = network.descend(X, Y, rate, 3)
        predicted = predict_training(H, network.forward(X) - Y, rate, width=network.width).loss(range(4))
        fall, foreseen = run.loss[0] - run.loss, predicted[0] - predicted
        assert ((fall - foreseen).abs() <= 0.05 * foreseen).all()

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda X: X * float("nan"), "NaN"),
            (lambda X: X[:, :0], "shape"),
            (lambda X: X[0], "shape"),
            (lambda X: X[:0], "empty"),
            (lambda X: X.long(), "floating point"),
            (lambda X: "points", "expected a tensor"),
        ],
    )
    def test_points_that_cannot_be_used_are_refused(self, change, message):
        network, X, Y = self.example()
        for use in (
            network.forward,
            network.kernel,
            network.kernel_operator,
            lambda Z: network.kernel(X, Z),
            lambda Z: network.gradient(Z, Y),
            lambda Z: network.descend(Z, Y, 1e-3, 1),
        ):
            with pytest.raises(AttangentError, match=message):
                use(change(X))

    def test_targets_must_match(self):
        network, X, Y = self.example()
        for wrong in (Y[:2], torch.cat([Y, Y], dim=1), Y.long(), Y * float("inf")):
            with pytest.raises(AttangentError, match="Y"):
                network.gradient(X, wrong)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"method": "fast"}, "method is 'fast'"),
            ({"kind": "printed"}, "kind is 'printed'"),
            ({"method": "syrk", "X2": torch.ones(1, 3).double()}, "needs X2=None"),
            ({"memory_limit": 0}, "memory_limit is 0"),
            ({"memory_limit": 100}, "would take .* but memory_limit is 100 B.*kernel_operator"),
        ],
    )
    def test_bad_options_are_refused(self, options, message):
        network, X, _ = self.example()
        with pytest.raises(AttangentError, match=message):
            network.kernel(X, **options)

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"m": 7, "init": "symmetric"}, "m is 7, expected an even number"),
            ({"m": 0}, "m is 0"),
            ({"m": 2.0}, "m is 2.0"),
            ({"sigma": -1.0}, "sigma is -1.0"),
            ({"sigma": float("nan")}, "sigma is nan"),
            ({"init": "zero"}, "init is 'zero'"),
            ({"d_in": 0}, "d(_in)? is 0"),
        ],
    )
    def test_bad_settings_are_refused(self, settings, message):
        settings = {"d_in": 3, "d_out": 2, "m": 8} | settings
        with pytest.raises(AttangentError, match=message):
            self.make(**settings)

    def test_weights_of_another_shape_are_refused(self):
        network, _, _ = self.example()
        for wrong in (network.W[:, :-1], torch.cat([network.W, network.W]), network.W * float("nan")):
            with pytest.raises(AttangentError, match="W has"):
                network.with_weights(wrong)


def close(given: Tensor, expected: Tensor, size: Tensor) -> None:
    """Equal to 1e-10 of the summands' size, entry by entry."""
    excess = (given - expected).abs() - TOLERANCE * size
    assert excess.max() <= 0, f"off by {excess.max():.3g} more than {TOLERANCE} of the summands"
