"""The methods of the comparison on a decoder."""

from benchmarks.suites.tuning.decoders import METHODS


def test_methods_train_the_last_layers_alone():
    assert {method.top for method in METHODS.values()} == {6}
    assert [method.name for method in METHODS.values()] == list(METHODS)


def test_both_together_are_half_of_each():
    half = METHODS["ntk+lora"]
    assert 2 * half.rank == METHODS["lora"].rank
    assert 2 * half.ntk.resolved_size == METHODS["ntk"].ntk.resolved_size
