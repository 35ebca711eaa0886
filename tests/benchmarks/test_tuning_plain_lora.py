"""LoRA as peft's own examples train it."""

import pytest

from attangent.tuning.methods import Method, adapt
from attangent.tuning.tasks import trained_sizes
from benchmarks.suites.tuning import plain_lora
from benchmarks.suites.tuning.plain_lora import GRID, LORA, RATES, SETTINGS
from tests.adapters.models import tiny


@pytest.mark.parametrize("name", ["bert", "vit"])
def test_it_has_the_numbers_of_ours(name):
    kind = "image-classification" if name == "vit" else "classification"
    methods = (Method("lora", rank=8), LORA)
    ours, theirs = (trained_sizes(adapt(tiny(name), method, kind, 0))["parameters"] for method in methods)
    assert ours == theirs


def test_it_starts_from_random_weights_and_reads_what_the_model_gives():
    assert SETTINGS["start"] == "random"
    assert SETTINGS["pooling"] == "first"


def test_a_reported_rate_is_one_of_those_tried():
    assert set(RATES.values()) <= set(GRID)
    assert all(name.removesuffix("-long") in plain_lora.CHOSEN for name in RATES)
