"""The table of what was tried on the tasks that serve for choosing."""

from benchmarks.suites.tuning.building import ENTRANTS, RIVAL, table


def test_differences_are_to_lora_at_its_better_rate_by_split():
    runs = [
        {"task": "t 300", "entrant": label, "seed": seed, "test": {"accuracy": value, "loss": 0.5}}
        for label, values in ((RIVAL, (0.8, 0.9, 0.7)), ("ntk", (0.7, 0.9)))
        for seed, value in enumerate(values)
    ]
    assert table(runs).splitlines()[2:] == [
        f"| {RIVAL} | 0.800 | 0.500 |  | 3 |",
        "| ntk | 0.800 | 0.500 | -5.0 ± 5.0 | 2 |",
    ]


def test_every_way_is_trained_at_one_rate():
    assert {len(entrant.rates) for entrant in ENTRANTS} == {1}
