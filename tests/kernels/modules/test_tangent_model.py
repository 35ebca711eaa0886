import pytest
import torch
import torch.nn.functional as F
from torch import nn

from attangent import AttangentError
from attangent.kernels.modules import Optimiser, TangentModel, departure

LABELS = torch.tensor([0, 1, 2, 1, 0, 2, 2, 1])
ORDER = [[0, 1, 2], [3, 4, 5], [6, 7, 0], [1, 2, 3], [4, 5, 6]]


def points(count=8):
    return torch.randn(count, 4, generator=torch.Generator().manual_seed(0))


def linear():
    torch.manual_seed(3)
    return nn.Linear(4, 3)


def trained(model, rate, optimiser):
    """The module itself, trained by torch."""
    x, losses = points(), []
    adam = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=optimiser.weight_decay)
    for step, batch in enumerate(ORDER):
        adam.param_groups[0]["lr"] = rate * optimiser.factor(step)
        loss = F.cross_entropy(model(x[batch]), LABELS[batch])
        adam.zero_grad()
        loss.backward()
        adam.step()
        losses.append(loss.item())
    return losses, model(x).detach()


def test_a_linear_module_is_foretold_exactly():
    optimiser = Optimiser(5, weight_decay=0.1, warmup=0.4)
    rates = (0.3, 0.01)
    run = TangentModel.of(linear(), points(), batch=3).train(
        LABELS, F.cross_entropy, optimiser, rates, ORDER, record=(0, 5)
    )
    assert run.recorded == (0, 5)
    for r, rate in enumerate(rates):
        losses, outputs = trained(linear(), rate, optimiser)
        assert torch.allclose(run.batch_losses[:, r], torch.tensor(losses), atol=1e-5)
        assert torch.allclose(run.outputs[1, r], outputs, atol=1e-5)


def test_other_points_along_the_run():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))
    tangent = TangentModel.of(model, points())
    new = torch.randn(5, 4, generator=torch.Generator().manual_seed(1))
    theta = tangent.theta + 1e-3 * torch.randn(2, 3, len(tangent.theta), generator=torch.Generator())
    along = tangent.along(new, theta, batch=2)
    assert along.shape == (2, 3, 5, 3)
    assert torch.allclose(along[1, 2], tangent.true_outputs(new, theta[1, 2]), atol=1e-5)
    assert torch.allclose(tangent.along(new, tangent.theta[None])[0], model(new), atol=1e-6)


def test_small_steps_are_lazy_and_large_ones_are_not():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))
    tangent, found = TangentModel.of(model, points()), []
    for rate in (1e-4, 1.0):
        run = tangent.train(LABELS, F.cross_entropy, Optimiser(5), (rate,), ORDER, record=(5,))
        true = tangent.true_outputs(points(), run.theta[0, 0])
        found.append(departure(true, run.outputs[0, 0], tangent.outputs))
    assert found[0] < 0.01
    assert found[1] > 0.5


def test_what_does_not_fit_is_halved_then_refused():
    whole = TangentModel.of(linear(), points())
    numbers = whole.jacobian.numel()
    half = TangentModel.of(linear(), points(), memory_limit=3 * numbers)
    assert half.jacobian.dtype == torch.float16
    assert torch.allclose(half.jacobian.float(), whole.jacobian, atol=2e-3)
    with pytest.raises(AttangentError, match="Jacobian of 8 points"):
        TangentModel.of(linear(), points(), memory_limit=numbers)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"order": ORDER[:2]}, "2 batches"),
        ({"order": [[0], [8], [0], [0], [0]]}, "beyond the 8"),
        ({"order": [[0], [], [0], [0], [0]]}, "empty"),
        ({"rates": (-1.0,)}, "none below 0"),
    ],
)
def test_bad_input(given, match):
    settings = {"rates": (0.1,), "order": ORDER, **given}
    with pytest.raises(AttangentError, match=match):
        TangentModel.of(linear(), points()).train(
            LABELS, F.cross_entropy, Optimiser(5), record=(5,), **settings
        )


def test_modules_that_vmap_cannot_follow_go_point_by_point():
    class Curious(nn.Linear):
        def forward(self, x):
            return super().forward(x if x.sum().item() < 1e9 else -x)

    torch.manual_seed(3)
    alone = TangentModel.of(Curious(4, 3), points())
    assert torch.allclose(alone.jacobian, TangentModel.of(linear(), points()).jacobian, atol=1e-6)
