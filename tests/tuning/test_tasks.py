"""Which parameters are a classifier's."""

from attangent.tuning.tasks import is_head


def test_heads_are_known_by_name():
    assert is_head("base_model.model.classifier.modules_to_save.default.weight")
    assert not is_head("bert.encoder.layer.0.output.dense.weight")
