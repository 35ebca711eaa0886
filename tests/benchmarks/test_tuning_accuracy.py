"""The accuracy experiment: its data, and the gaps it prints."""

import gzip
import json

import pytest

from attangent.papers.p1_prefix.head_to_head.settings import MethodComparison, TaskSplit
from attangent.tuning.methods import adapt
from attangent.tuning.tasks import trained_sizes
from benchmarks.suites.tuning.accuracy import ENTRANTS, gaps, overview
from benchmarks.suites.tuning.data import (
    counterfact_answers,
    counterfact_other_relations,
    counterfact_rarer_answers,
    counterfact_rarest_answers,
    counterfact_relations,
    drawn_digits,
    gsm8k_steps,
    math_levels,
    math_subjects,
    read_table,
)
from benchmarks.suites.tuning.recipes import ALL_LINEAR, CORE, OTHERS, SCREENED, has_signal, lora_on, screened
from tests.adapters.models import tiny


def lines(path, rows):
    path.parent.mkdir()
    with gzip.open(path, "wt") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def test_problems_are_labelled_with_the_lines_of_their_solutions(tmp_path):
    answers = ["a\n#### 1", "a\nb\n#### 2", "a\nb\nc\n#### 3", "\n".join("abcdefg") + "\n#### 4"]
    rows = [{"question": f'Who, and "{n}"?', "answer": answer} for n, answer in enumerate(answers)]
    lines(tmp_path / "gsm8k/train.jsonl.gz", rows)
    found = read_table(gsm8k_steps(tmp_path, tmp_path / "out"))
    assert [label for _, label in found] == ["2", "2", "3", "5"]
    assert [text for text, _ in found] == [row["question"] for row in rows]


def test_problems_are_labelled_with_their_subjects(tmp_path):
    lines(tmp_path / "math/train_part.jsonl.gz", [{"problem": "1 + 1,\n2?", "subject": "Algebra", "x": 1}])
    assert read_table(math_subjects(tmp_path, tmp_path / "out")) == [("1 + 1,\n2?", "Algebra")]


def test_sentences_are_labelled_with_their_last_words(tmp_path):
    path = tmp_path / "counterfact/counterfact_true_false.csv.gz"
    path.parent.mkdir()
    rows = [f"{n % 2},{{}} is in,S{n},T{n % 26}\n" for n in range(60)] + ["1,{} is in,S1,T3\n"]
    with gzip.open(path, "wt") as file:
        file.writelines(["label,relation,subject,target\n", *rows])
    found = read_table(counterfact_answers(tmp_path, tmp_path / "out"))
    assert len({label for _, label in found}) == 12
    assert ("S1 is in", "T1") in found
    assert len(found) == len({text for text, _ in found})
    assert not any(text == "S2 is in" for text, _ in found)


def test_rarer_last_words_are_others(tmp_path):
    path = tmp_path / "counterfact/counterfact_true_false.csv.gz"
    path.parent.mkdir()
    rows = [f"1,{{}} is in,S{n}-{word},T{word}\n" for word in range(80) for n in range(80 - word)]
    with gzip.open(path, "wt") as file:
        file.writelines(["label,relation,subject,target\n", *rows])
    made = counterfact_answers, counterfact_rarer_answers, counterfact_rarest_answers
    frequent, rarer, rarest = ({label for _, label in read_table(one(tmp_path, tmp_path))} for one in made)
    assert frequent == {f"T{word}" for word in range(12)}
    assert rarer == {f"T{word}" for word in range(12, 36)}
    assert rarest == {f"T{word}" for word in range(36, 72)}


def test_digits_are_drawn_once_each(tmp_path):
    place = drawn_digits(tmp_path)
    assert len(list(place.rglob("*.png"))) == 1797
    assert sorted(path.name for path in (place / "adapt/train").iterdir()) == list("56789")
    assert sorted(path.name for path in (place / "pretrain/test").iterdir()) == list("01234")


def test_digits_may_be_pretrained_on_from_another_one_on(tmp_path):
    place = drawn_digits(tmp_path, first=5)
    assert sorted(path.name for path in (place / "adapt/train").iterdir()) == list("01234")


def test_gaps_are_means_over_tasks_of_pairs_of_runs(tmp_path):
    file = tmp_path / "x.csv"
    file.write_text("text,label\na,b\n")
    trials = (TaskSplit("few", (file,), 300, 1, 1), TaskSplit("many", (file,), 1000, 1, 1))
    runs = []
    for task, of_lora, of_ntk in (("few", (0.5, 0.6), (0.4, 0.6)), ("many", (0.8, 0.9), (0.9, 0.9))):
        for label, accuracies in (("lora r=8", of_lora), ("ntk", of_ntk)):
            rates = next(entrant.rates for entrant in ENTRANTS if entrant.label == label)
            for seed, accuracy in enumerate(accuracies):
                for rate in rates if seed == 0 else rates[:1]:
                    scores = {"accuracy": accuracy - (rate != rates[0]), "loss": 0.0}
                    names = {"task": task, "entrant": label, "seed": seed, "rate": rate}
                    costs = {"parameters": 1, "seconds": 1.0, "peak_megabytes": 1.0}
                    runs.append(names | costs | {"validation": scores, "test": scores})
    comparison = MethodComparison("m", ENTRANTS, trials, seeds=2)
    assert overview([comparison], runs).splitlines()[2:] == [
        "| few |  | 0.550 ± 0.071 |  | 0.500 ± 0.141 |  | 2 |",
        "| many |  | 0.850 ± 0.071 |  | 0.900 ± 0.000 |  | 2 |",
    ]
    told = gaps([comparison], runs).splitlines()
    assert told[0] == "1000 examples or more: ntk - lora r=8 = +0.0500, standard error 0.0500"
    assert told[1:] == ["300 examples or fewer: ntk - lora r=8 = -0.0500, standard error 0.0500"]


def test_every_method_may_choose_from_as_many_rates():
    assert {len(entrant.rates) for entrant in ENTRANTS} == {2}


def test_a_task_has_signal_where_the_probe_leaves_three_points():
    assert has_signal({"probe": 0.5, "lora r=8": 0.53, "ntk": 0.4}, 0.4)
    assert not has_signal({"probe": 0.5, "lora r=8": 0.52}, 0.4)
    assert not has_signal({"probe": 0.4, "lora r=8": 0.6}, 0.4)


def screened_runs(rates, accuracies):
    found = []
    for entrant, values in zip(rates, accuracies, strict=True):
        for rate, value in zip(entrant.rates, values, strict=True):
            scores = {"accuracy": value, "loss": 1 - value}
            found.append({"task": "some 300", "entrant": entrant.label, "rate": rate, "seed": 40})
            found[-1] |= {"test": scores, "validation": scores}
    return found


def test_a_screen_says_which_task_has_signal(tmp_path):
    (tmp_path / "x.csv").write_text("text,label\n" + "a,b\n" * 3 + "c,d\n" * 2)
    trial = TaskSplit("some 300", (tmp_path / "x.csv",), 3, 1, 1)
    runs = screened_runs(SCREENED, [(0.7,), (0.72,), (0.75,)])
    said = screened(runs, trial)
    assert said == "some 300: signal (guessing 0.600, probe 0.700, lora r=8 0.720, ntk 0.750)"
    assert screened(runs[:-1], trial) is None
    assert "no signal" in screened(screened_runs(SCREENED, [(0.7,), (0.72,), (0.7,)]), trial)


def test_methods_are_compared_as_tune_runs_them():
    for entrant in (*CORE, *OTHERS):
        method = entrant.at(entrant.rates[0])
        assert method.learning_rate is None
        assert len(entrant.rates) == 1


def test_problems_are_labelled_with_their_levels_and_subjects_with_relations(tmp_path):
    lines(tmp_path / "math/train_part.jsonl.gz", [{"problem": "1 + 1?", "level": "Level 3"}])
    assert read_table(math_levels(tmp_path, tmp_path / "out")) == [("1 + 1?", "Level 3")]
    path = tmp_path / "counterfact/counterfact_true_false.csv.gz"
    path.parent.mkdir()
    rows = ["The mother tongue of {} is,A\n", "{} is developed by,B\n", "{} plays,C\n"]
    twice = ["{} speaks,D\n", "{} is developed by,D\n"]  # of two relations: left out
    with gzip.open(path, "wt") as file:
        file.writelines(["relation,subject\n", *rows, *twice])
    found = read_table(counterfact_relations(tmp_path, tmp_path / "out"))
    assert found == [("A", "language of a person"), ("B", "maker")]


def test_other_relations_have_other_subjects(tmp_path):
    path = tmp_path / "counterfact/counterfact_true_false.csv.gz"
    path.parent.mkdir()
    rows = ["{} works as,A\n", "{} is employed by,B\n", "{} is developed by,B\n", "{} is based in,C\n"]
    with gzip.open(path, "wt") as file:
        file.writelines(["relation,subject\n", *rows])
    found = read_table(counterfact_other_relations(tmp_path, tmp_path / "out"))
    assert found == [("A", "profession"), ("C", "headquarters")]


@pytest.mark.parametrize("layers", [{"q": 2, "v": 1}, {"up": 1, "down": 3}, ALL_LINEAR["texts"]])
def test_lora_goes_where_it_is_told_with_its_rank(layers):
    shapes = {"q": 64, "k": 64, "v": 64, "o": 64, "up": 80, "down": 80}  # inputs and outputs of a tiny BERT
    found = trained_sizes(adapt(tiny("bert"), lora_on(layers), "classification", 0))["parameters"]
    assert found == 2 * sum(rank * shapes[layer] for layer, rank in layers.items())
