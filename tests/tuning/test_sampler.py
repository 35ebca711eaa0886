"""The order of examples."""

from hypothesis import given
from hypothesis import strategies as st

from attangent.tuning.sampler import SeededOrder


@given(st.lists(st.integers(1, 9), max_size=40), st.integers(1, 5), st.integers(0, 3))
def test_like_lengths_share_a_batch(lengths, group, epoch):
    order = SeededOrder(len(lengths), 0, lengths, group)
    order.set_epoch(epoch)
    found = list(order)
    assert sorted(found) == list(range(len(lengths)))
    assert found == list(order)
    whole = len(found) // group * group
    groups = [sorted(lengths[i] for i in found[at : at + group]) for at in range(0, whole, group)]
    if len(found) <= 32 * group:
        kept = sorted(range(len(lengths)), key=lengths.__getitem__)[:whole]
        best = [[lengths[i] for i in kept[at : at + group]] for at in range(0, whole, group)]
        assert sorted(groups) == sorted(best)
