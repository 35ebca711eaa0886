"""The tangent of an adapted model at padded rows, against autograd row by row."""

import pytest
import torch

from attangent.tuning.planning.network import contrasts, unpadded
from attangent.tuning.planning.tangents import OutputTangent
from tests.tuning.planning.cases import case


@pytest.mark.parametrize("outputs", [1, 2, 3, 7])
def test_softmax_sees_logits_only_through_contrasts(outputs):
    basis = contrasts(outputs).double()
    logits = torch.randn(5, outputs, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    assert torch.allclose(basis.T @ basis, torch.eye(basis.shape[1], dtype=torch.float64), atol=1e-6)
    if outputs > 1:
        again = (logits @ basis) @ basis.T
        assert torch.allclose(again.softmax(1), logits.softmax(1), atol=1e-6)
    else:
        assert torch.equal(logits @ basis, logits)


@pytest.mark.parametrize("method", ["ntk", "lora", "ntk+lora", "head"])
@pytest.mark.parametrize("model", ["bert", "llama"])
def test_rows_of_the_jacobian_are_gradients_of_the_model(request, model, method):
    given = case(request.getfixturevalue(model), method)
    adapted, network = given.network()
    rows = given.task.rows[:5]
    tangent = network.tangent(rows)
    trained = [parameter for parameter in adapted.parameters() if parameter.requires_grad]
    batch = given.task.collate(rows)
    batch.pop("labels")
    outputs = adapted(**batch).logits @ network.basis
    assert torch.allclose(tangent.outputs, outputs, atol=1e-5)
    for row in range(len(rows)):
        slopes = torch.autograd.grad(outputs[row, 0], trained, retain_graph=True)
        wanted = torch.cat([slope.flatten() for slope in slopes])
        assert torch.allclose(tangent.jacobian[row, 0], wanted, atol=1e-4, rtol=1e-3)


def test_outputs_elsewhere_and_along_the_tangent(bert):
    given = case(bert, "ntk")
    _, network = given.network()
    rows = given.task.rows[:6]
    draw = torch.randn(2, len(network.theta), generator=torch.Generator().manual_seed(0))
    theta = network.theta + 1e-4 * draw
    true = torch.stack([network.outputs(rows, one) for one in theta])
    along = network.along(rows, theta, network.theta, OutputTangent)
    assert torch.allclose(along, true, atol=1e-4)
    foretold, _ = network.tangent(rows).at(theta, torch.arange(6))
    assert torch.allclose(foretold, along, atol=1e-5)
    moved = network.tangent(rows, theta[0])
    assert torch.allclose(moved.outputs, true[0], atol=1e-5)


def test_rows_of_one_length_come_without_padding(bert):
    given = case(bert, "head")
    seen = []
    for places, inputs in unpadded(given.task.rows, given.task.collate, 4):
        assert "attention_mask" not in inputs
        assert "labels" not in inputs
        assert len(places) <= 4
        seen += places
    assert sorted(seen) == list(range(len(given.task.rows)))


def test_the_classifier_among_the_parameters(bert):
    _, network = case(bert, "ntk").network()
    assert int(network.head_places.sum()) == 2 * 32 + 2
    assert len(network.head_places) == len(network.theta)
