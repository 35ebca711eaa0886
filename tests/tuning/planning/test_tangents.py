"""Stand-ins for a model: outputs and gradients against autograd and against the model itself."""

import pytest
import torch

from attangent.kernels.functional import Functional
from attangent.kernels.modules import TangentModel
from attangent.tuning.planning.network import contrasts
from attangent.tuning.planning.tangents import Classifier, FeatureTangent, FixedFeatures, OutputTangent
from tests.tuning.planning.cases import case

ROWS, CLASSES, FEATURES, OTHERS, RUNS = 5, 3, 4, 6, 2


def draw(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape)))


def classifier(bias):
    places = torch.arange(OTHERS, OTHERS + CLASSES * FEATURES + (CLASSES if bias else 0))
    weight, rest = places[: CLASSES * FEATURES], places[CLASSES * FEATURES :]
    return Classifier(weight, rest, contrasts(CLASSES))


def feature_tangent(bias):
    """With a Jacobian made up by hand: Q h' for W, Q for b, anything for the others."""
    own, features = classifier(bias), draw(ROWS, FEATURES)
    outputs = own.basis.shape[1]
    total = OTHERS + len(own.places)
    jacobian = torch.zeros(ROWS, outputs, total)
    jacobian[..., :OTHERS] = draw(ROWS, outputs, OTHERS)
    jacobian[..., own.weight] = torch.einsum("co,nd->nocd", own.basis, features).flatten(2)
    nobody = Functional(torch.nn.Identity(), {}, lambda given: given)
    model = TangentModel(nobody, torch.zeros(ROWS, outputs), jacobian, draw(total))
    return FeatureTangent.of(model, own, own.basis), features


@pytest.mark.parametrize("bias", [True, False])
def test_features_are_read_off_the_jacobian_and_move_as_the_reference_sees_it(bias):
    tangent, features = feature_tangent(bias)
    assert torch.allclose(tangent.features, features, atol=1e-6)
    theta, rows = draw(RUNS, len(tangent.model.theta)), torch.tensor([0, 2, 3])
    outputs, _ = tangent.at(theta, rows)
    basis, start = tangent.classifier.basis, tangent.model.theta
    for run in range(RUNS):
        seen = tangent.model.jacobian[rows][..., :OTHERS] @ (theta[run] - start)[:OTHERS]
        weight = start[tangent.classifier.weight].unflatten(0, (CLASSES, -1))
        moved = features[rows] + seen @ torch.linalg.pinv(basis.T @ weight).T
        own, bias_of = tangent.classifier.parts(theta[run : run + 1])
        wanted = (moved @ own[0].T + bias_of[0]) @ basis
        assert torch.allclose(outputs[run], wanted, atol=1e-4)


@pytest.mark.parametrize("kind", ["features", "features without bias", "fixed", "outputs"])
def test_the_way_back_is_the_gradient(kind):
    tangent, features = feature_tangent(kind != "features without bias")
    if kind == "fixed":
        tangent = FixedFeatures(tangent.classifier, features)
    elif kind == "outputs":
        tangent = OutputTangent(tangent.model)
    rows, outputs = torch.tensor([1, 4]), CLASSES - 1
    noise = 0.1 * draw(2, outputs if kind == "outputs" else FEATURES)
    total = OTHERS + CLASSES * FEATURES + (0 if kind == "features without bias" else CLASSES)
    theta = draw(RUNS, total).requires_grad_()
    found, pull = tangent.at(theta, rows, noise)
    slopes = draw(RUNS, 2, outputs)
    (wanted,) = torch.autograd.grad((found * slopes).sum(), theta)
    assert torch.allclose(pull(slopes), wanted, atol=1e-5)


@pytest.mark.parametrize(
    ("model", "method"), [("bert", "ntk"), ("bert", "lora"), ("bert", "head"), ("llama", "lora")]
)
def test_with_a_classifier_that_moves_far_features_are_nearer_than_outputs(request, model, method):
    given = case(request.getfixturevalue(model), method)
    _, network = given.network()
    own, rows = network.classifier, given.task.rows[:6]
    assert own is not None
    change = 1e-4 * torch.randn(len(network.theta), generator=torch.Generator().manual_seed(0))
    change[own.places] = 3 * network.theta[own.places]
    theta, places = network.theta + change, torch.arange(6)
    true, made = network.outputs(rows, theta), network.tangent(rows)
    near = FeatureTangent.of(made, own, own.basis).at(theta[None], places)[0][0]
    assert torch.allclose(near, true, atol=2e-3)
    if method != "head":
        far = OutputTangent(made).at(theta[None], places)[0][0]
        assert (near - true).norm() < (far - true).norm()


def test_a_classifier_of_two_layers_is_taken_by_its_outputs(bert):
    given = case(bert, "ntk")
    adapted, network = given.network()
    assert network.classifier is not None
    parameters = {**network.function.parameters, "classifier.dense.weight": torch.zeros(2, 2)}
    two = type(network)(
        type(network.function)(adapted, parameters, network.function.output), network.basis, network.collate
    )
    assert two.classifier is None


def test_a_narrow_sight_follows_features_where_the_reference_sees_most():
    own = classifier(bias=True)
    theta, features = draw(OTHERS + len(own.places)), draw(ROWS, FEATURES)
    assert own.main_sight(theta, CLASSES - 1) is own.basis
    sight = own.main_sight(theta, 1)
    seen = own.basis.T @ theta[own.weight].unflatten(0, (CLASSES, -1))
    assert torch.allclose(sight.T @ sight, torch.ones(1, 1), atol=1e-6)
    assert torch.allclose(sight.sum(dim=0), torch.zeros(1), atol=1e-6)
    largest = torch.linalg.matrix_norm(seen, 2)
    weight = theta[own.weight].unflatten(0, (CLASSES, -1))
    assert (sight.T @ weight).norm() == pytest.approx(float(largest), rel=1e-5)
    jacobian = torch.zeros(ROWS, 1, len(theta))
    jacobian[..., own.weight] = torch.einsum("co,nd->nocd", sight, features).flatten(2)
    assert torch.allclose(own.features_of(jacobian, sight), features, atol=1e-6)


def test_the_outputs_of_another_basis_are_those_of_the_model(bert):
    _, network = case(bert, "lora").network()
    rows = case(bert, "lora").task.rows[:3]
    mixed = network.seen_by(2 * network.basis)
    assert torch.allclose(mixed.outputs(rows), 2 * network.outputs(rows), atol=1e-6)
