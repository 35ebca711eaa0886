"""What the fuzzer covers."""

import inspect

from drill.examples import example
from drill.outcomes import ANSWERED, outcome_of
from drill.public import Entry, entries

import attangent


def test_every_public_name_is_covered():
    names = {entry.name for entry in entries()}
    assert len(names) > 400
    for name in attangent.__all__:
        thing = getattr(attangent, name)
        if inspect.isfunction(thing):
            assert any(covered.endswith(f".{name}") for covered in names), name


def test_a_new_entry_is_called_from_its_annotations():
    def fresh(count: int, places: list[str], scale: float | None = None) -> int:
        return count * len(places)

    _, given = example(Entry("room.fresh", fresh))
    assert given == {"count": 3, "places": ["x"]}


def test_nearly_all_examples_are_answered(tmp_path, monkeypatch):
    """The fuzzer starts from calls that work: else it would find only the first refusal."""
    monkeypatch.chdir(tmp_path)
    slow = ("runner.run", "compress", "forecast.", "adapters.", "stages.", "audit.", "tuning.")
    chosen = [entry for entry in entries() if not any(word in entry.name for word in slow)]
    refused = []
    for entry in chosen[::3]:
        owner, given = example(entry)
        first = (owner,) if entry.owner else ()
        if outcome_of(lambda: entry.function(*first, **given), finite=True).kind != ANSWERED:  # noqa: B023
            refused.append(entry.name)
    assert len(refused) <= 0.06 * len(chosen[::3]), refused
