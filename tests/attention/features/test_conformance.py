"""Every feature map passes the same checks: a new map joins by a line in `cases.MAPS`."""

import pytest
import torch

from attangent._core.errors import AttangentError
from attangent.attention import PrefixState
from attangent.attention.features import BY_NAME
from tests.attention.cases import MAPS, make_map, make_state, normal


@pytest.mark.parametrize("heads", [None, 3], ids=["shared", "by head"])
@pytest.mark.parametrize("name", MAPS)
class TestEveryMap:
    dim = 4

    def test_features_have_the_announced_size_and_dtype(self, name, heads):
        features = make_map(name, self.dim, heads)
        for dtype in (torch.float32, torch.float64):
            phi = features(normal(2, 3, 5, self.dim, dtype=dtype))
            assert phi.shape == (2, 3, 5, features.size)
            assert phi.dtype == dtype

    def test_positive_maps_have_no_negative_feature(self, name, heads):
        features = make_map(name, self.dim, heads)
        phi = features(normal(50, 3, 40, self.dim, scale=3))
        assert features.positive == bool((phi >= 0).all())

    def test_evaluate_is_the_map_times_the_sizes(self, name, heads):
        features = make_map(name, self.dim, heads)
        x = normal(2, 3, 5, self.dim)
        sizes = features.row_sizes(normal(3, features.size, 2, seed=1), normal(3, features.size, seed=2))
        w, shift = features.evaluate(x, sizes)
        factor = 1 if sizes is None else sizes.unsqueeze(-2)
        torch.testing.assert_close(w if shift is None else w * shift.exp(), features(x) * factor)

    def test_pullback_is_the_gradient_that_autograd_finds(self, name, heads):
        features = make_map(name, self.dim, heads)
        x = normal(2, 3, 5, self.dim, seed=7).requires_grad_()
        w, _ = features.evaluate(x, None)
        upstream = normal(*w.shape, seed=8)
        wanted = torch.autograd.grad(w, [x, *features.parameters()], upstream)
        grad_x, grads = features.pullback(x.detach(), w.detach(), upstream)
        for found, expected in zip((grad_x, *grads), wanted, strict=True):
            torch.testing.assert_close(found, expected, atol=1e-12, rtol=1e-12)

    def test_trained_weights_are_its_parameters(self, name, heads):
        features = make_map(name, self.dim, heads)
        assert [id(t) for t in features.trained()] == [id(p) for p in features.parameters()]

    def test_huge_inputs_leave_features_finite(self, name, heads):
        features = make_map(name, self.dim, heads).float()
        x = normal(2, 3, 5, self.dim, dtype=torch.float32, scale=100)
        w, shift = features.evaluate(x, None)
        assert torch.isfinite(w).all()
        assert shift is None or torch.isfinite(shift).all()

    def test_saved_and_rebuilt_map_gives_the_same_features(self, name, heads):
        features = make_map(name, self.dim, heads)
        again = BY_NAME[features.name].rebuild(features.describe(), features.state_dict())
        x = normal(2, 3, 5, self.dim)
        assert again.same_as(features)
        assert torch.equal(again(x), features(x))

    def test_state_of_two_prefixes_is_the_sum_of_their_states(self, name, heads):
        features = make_map(name, self.dim, heads)
        keys, values = normal(3, 11, self.dim), normal(3, 11, 2, seed=1)
        whole = PrefixState.from_prefix(features, keys, values)
        first = PrefixState.from_prefix(features, keys[:, :4], values[:, :4])
        second = PrefixState.from_prefix(features, keys[:, 4:], values[:, 4:])
        both = first.add(second)
        torch.testing.assert_close(both.Z, whole.Z)
        torch.testing.assert_close(both.k, whole.k)

    def test_maps_of_another_kind_cannot_be_joined(self, name, heads):
        features = make_map(name, self.dim, heads)
        other = make_map("taylor-2" if name != "taylor-2" else "elu", self.dim, heads)
        with pytest.raises(AttangentError, match="cannot be added"):
            features.joined(other)

    def test_mass_of_a_prefix_is_positive_for_positive_maps(self, name, heads):
        state = make_state(name, self.dim, 3)
        if state.features.positive:
            queries = normal(3, 100, self.dim, scale=4)
            assert (torch.linalg.vecdot(state.features(queries), state.k.unsqueeze(-2)) > 0).all()
