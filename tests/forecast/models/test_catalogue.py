import pytest

from attangent import AttangentError
from attangent.forecast.models.catalogue import AUTO, make


def test_every_name_makes_a_model():
    for name in AUTO:
        assert make(name, 8, 2).lookback == 8


def test_an_unknown_name_is_refused_with_the_nearest():
    with pytest.raises(AttangentError, match="unknown model 'lienar': did you mean linear"):
        make("lienar", 8, 2)
