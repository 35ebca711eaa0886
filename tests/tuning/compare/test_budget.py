"""Methods sized to a budget."""

import pytest

from attangent import AttangentError
from attangent.adapters.config import NTKConfig
from attangent.tuning.compare.budget import parameter_count, with_budget
from attangent.tuning.methods import Method
from tests.adapters.models import tiny


@pytest.mark.parametrize("method", [Method("lora"), Method("prefix"), Method("ntk")])
def test_sizes_that_fit_a_budget(method):
    model = tiny("bert")
    made = with_budget(model, method, "classification", 3000)
    count = parameter_count(model, made, "classification")
    step = (
        parameter_count(model, with_budget(model, method, "classification", 3000 + 600), "classification")
        - count
    )
    assert abs(count - 3000) <= max(step, 300)


def test_methods_without_a_size_keep_theirs():
    for method in (Method("head"), Method("ntk", ntk=NTKConfig(features="elu"))):
        assert with_budget(tiny("bert"), method, "classification", 10) is method
    with pytest.raises(AttangentError, match="has two sizes"):
        with_budget(tiny("bert"), Method("ntk+lora"), "classification", 10)
