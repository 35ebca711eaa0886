"""The network that the softmax estimator is compared with."""

from attangent.papers.p2_softmax.diffusion import (
    Adam,
    MLPScore,
    label_loss,
)
from tests.papers.p2_softmax.diffusion.examples import DATA, PROCESS, softmax


def test_an_mlp_of_equal_size_has_as_many_weights():
    model = softmax(m=256)
    mlp = MLPScore.sized_like(model, 2, Adam(2, 0.01)).fit(DATA)
    assert abs(mlp.size - 4 * 256) <= 4
    assert mlp.inputs == model.inputs


def test_gradient_of_the_mlp_descends():
    mlp = MLPScore(PROCESS, 16, trainer=Adam(50, 0.02)).fit(DATA)
    losses = [label_loss(mlp.at(step), DATA) for step in (0, 10, 50) if step in mlp.course.snapshots]
    assert losses == sorted(losses, reverse=True)
