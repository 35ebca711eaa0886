"""A fixture for tests that tune many small models."""

import pytest

from attangent.tuning import start


@pytest.fixture(scope="module")
def one_penalty():
    """Fit classifiers with one penalty: cross-validation takes most of a small run's time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(start, "_STRENGTHS", (1.0,))
        yield
