"""The method where none is named."""

import pytest

from attangent.tuning.methods import default_for


@pytest.mark.parametrize("kind", ["classification", "regression", "causal-lm"])
def test_texts_get_a_state(kind):
    found = default_for(kind)
    assert (found.method.name, found.method.ntk.resolved_size) == ("ntk", 16)
    assert found.why.startswith("ntk")
    assert found.why.endswith("--method auto tries LoRA on your rows, too")
    assert ("level with LoRA" in found.why) == (kind == "classification")  # that is what was measured


def test_images_get_rslora_of_rank_8():
    found = default_for("image-classification")
    assert (found.method.name, found.method.rank) == ("lora", 8)
    assert found.method.peft == {"use_rslora": True}
    assert "images" in found.why
