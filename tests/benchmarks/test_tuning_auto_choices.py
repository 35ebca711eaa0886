"""What `auto` took, beside what it could have taken."""

from benchmarks.suites.tuning.auto_choices import against_lora, table


def test_what_was_taken_stands_beside_the_better_one():
    found = {}
    for seed, (both, lora) in enumerate([(0.5, 0.7), (0.6, 0.5)]):
        found |= {("t 300", "ntk+lora", seed): both, ("t 300", "lora r=8", seed): lora}
    choices = [{"task": "t 300", "seed": seed, "taken": "lora"} for seed in (0, 1)]
    assert table(choices, found).splitlines()[2] == "| t 300 | 0.550 | 0.600 | 0.600 | 0.650 | 2 of 2 |"
    choices.append({"task": "t 300", "seed": 2, "taken": "ntk+lora"})  # a split that has not been run
    assert table(choices, found).splitlines()[2].endswith("| 2 of 2 |")


def test_on_images_lora_is_rslora():
    found = {("t 300", "ntk+lora", 0): 0.5, ("t 300", "lora r=8", 0): 0.9, ("t 300", "rslora", 0): 0.7}
    line = table([{"task": "t 300", "seed": 0, "taken": "lora"}], found).splitlines()[2]
    assert line == "| t 300 | 0.500 | 0.700 | 0.700 | 0.700 | 1 of 1 |"


def test_what_was_taken_is_compared_with_lora_by_split():
    found = {}
    for seed, (both, lora) in enumerate([(0.7, 0.5), (0.8, 0.7), (0.4, 0.6)]):
        found |= {("t 300", "ntk+lora", seed): both, ("t 300", "lora r=8", seed): lora}
    taken = ("ntk+lora", "ntk+lora", "lora")
    choices = [{"task": "t 300", "seed": seed, "taken": name} for seed, name in enumerate(taken)]
    assert "(t 300 +10.0 ± 5.8; texts +10.0 ± 5.8)" in against_lora(choices, found)
    assert against_lora([], found) == ""
