"""Methods sized to a budget."""

import pytest

from attangent.adapters.config import NTKConfig
from attangent.papers.p1_prefix.head_to_head.budget import parameter_count, with_budget
from attangent.tuning.methods import Method
from tests.adapters.models import tiny


@pytest.mark.parametrize("method", [Method("lora"), Method("prefix"), Method("ntk"), Method("ntk+lora")])
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


def test_both_together_have_the_budget_of_one():
    """By default, and where a budget is given."""
    model = tiny("bert")
    lora = parameter_count(model, Method("lora"), "classification")
    both = Method.from_dict({"name": "ntk+lora"})
    assert parameter_count(model, both, "classification") == pytest.approx(lora, rel=0.2)
    sized = with_budget(model, both, "classification", 4 * lora)
    assert parameter_count(model, sized, "classification") == pytest.approx(4 * lora, rel=0.1)
    assert sized.ntk.resolved_size == 2 * sized.rank
