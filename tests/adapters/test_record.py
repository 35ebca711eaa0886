import pytest

from attangent import AttangentError
from attangent.adapters import (
    activate,
    active_adapters,
    detach,
    states_of,
)
from tests.adapters.models import tiny


def test_asking_a_bare_model_for_adapters_is_refused():
    for ask in (detach, active_adapters, states_of, lambda m: activate(m, "x")):
        with pytest.raises(AttangentError, match="no adapter attached"):
            ask(tiny("bert"))
