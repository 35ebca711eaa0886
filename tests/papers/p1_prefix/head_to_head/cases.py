"""A small comparison on a tiny BERT, and runs made up by hand."""

from attangent.papers.p1_prefix.head_to_head.run import Entrant, MethodComparison, TaskSplit
from attangent.tuning.methods import Method
from attangent.tuning.request import TrainingSettings
from tests.adapters.tiny import save_bert, write_rows


def write_model_and_rows(folder):
    made = save_bert(folder)
    write_rows(made / "rows.jsonl", 40)
    write_rows(made / "held.jsonl", 20, seed=5)
    return made


def trial(folder, **own):
    return TaskSplit("cats", (folder / "rows.jsonl",), **{"train": 20, "validation": 8, "test": 12, **own})


def comparison(folder, **own):
    entrants = (Entrant("head", Method("head")), Entrant("ntk", Method("ntk"), (0.01, 0.03)))
    given = {
        "trials": (trial(folder),),
        "training": TrainingSettings(epochs=1, batch=10),
        "seeds": 2,
        "top": 1,
        **own,
    }
    return MethodComparison(str(folder), entrants, **given)


def run(entrant, rate, seed, validation, test, task="cats"):
    scores = {
        "validation": {"accuracy": validation, "loss": 1 - validation},
        "test": {"accuracy": test, "loss": 1.0},
    }
    rest = {"parameters": 10.0, "seconds": 1.0, "peak_megabytes": 5.0}
    return {"task": task, "entrant": entrant, "rate": rate, "seed": seed, **scores, **rest}
