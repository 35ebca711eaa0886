import numpy as np

from attangent.forecast.models.panels.grid import posterior, settings


def test_trends_that_hardly_die_out_are_left_out_for_logarithms():
    assert settings(1, persistent_trends=True).phi.max() == 1.0  # Theta's drift
    kept = settings(1, persistent_trends=False)
    assert kept.phi[kept.drift == 0].max() == 0.9
    assert (kept.gamma == 0).all()
    assert settings(12, persistent_trends=False).gamma.max() > 0


def test_weights_follow_the_evidence_and_what_the_set_agrees_on():
    alone = posterior(np.array([[0.0, 1.0]]), rounds=1)
    np.testing.assert_allclose(alone[0, 1] / alone[0, 0], np.e)
    undecided = np.vstack([np.tile([0.0, 8.0], (50, 1)), [[0.0, 0.0]]])
    weights = posterior(undecided)
    np.testing.assert_allclose(weights.sum(axis=1), 1)
    assert weights[-1, 1] > 0.9  # a series that cannot tell goes with the others
    stubborn = np.vstack([np.tile([0.0, 8.0], (50, 1)), [[20.0, 0.0]]])
    assert posterior(stubborn)[-1, 0] > 0.99
