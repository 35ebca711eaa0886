"""In which order a GPT-2 trained from scratch learns real language, as the stage detector sees it.

    python -m benchmarks.suites.stages.language facts|text [--seeds 0 1]

facts: CounterFact, the loss split into the type of the answer and the answer of that type. text: passages
of BoolQ (Wikipedia), the loss split into the kind of the next word and the word, by whether the text had it
before. Both are read on held-out paraphrases or passages while training goes on. Writes
`benchmarks/results/language_stages.json` and, for the first seed, `docs/images/stages-facts.png` or
`-text.png`. Needs the data that ATTANGENT_DATA names.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attangent._core.files import write_json
from attangent.papers.p3_two_stage.facts.corpora import load_counterfact
from attangent.papers.p3_two_stage.facts.language import LanguageTraining, Reading, train_on_facts
from attangent.stages import StageDetector
from benchmarks.harness.folders import IMAGES, RESULTS
from benchmarks.suites.stages.text_model import Prose, passages, train

PLACE = RESULTS / "language_stages.json"
PICTURES = IMAGES
FILES = [f"counterfact/counterfact-{part}.json.gz" for part in ("train", "edit", "val")]
FACTS = {"facts": 1000, "epochs": 24, "readings_per_epoch": 6, "most_examples": 250}
FACT_MODEL = {"width": 64, "layers": 2, "heads": 4}
TEXT = {"width": 64, "layers": 2, "heads": 4, "batch": 16, "steps": 1200, "every": 8, "read": 64}
WORDS, WINDOW, HELD_OUT, RATE = 1500, 64, 150, 3e-3

Heard = list[str]


def facts(seed: int, say: Callable[[str], None]) -> StageDetector:
    """Types and answers of CounterFact; a step is a sixth of an epoch."""
    data = [Path(os.environ["ATTANGENT_DATA"], file) for file in FILES]
    sizes = {name: value for name, value in FACTS.items() if name != "facts"} | FACT_MODEL
    detector, count = StageDetector(["type", "answer"]), FACTS["readings_per_epoch"]

    def read(epoch: float, reading: Reading) -> None:
        losses = {"type": reading.type_loss, "answer": reading.answer_loss}
        for event in detector.update(round(epoch * count), losses):
            say(f"epoch {epoch:.3g}: {event}")

    train_on_facts(
        load_counterfact(data, FACTS["facts"]), LanguageTraining(**sizes, seed=seed), on_reading=read
    )
    return detector


def text(seed: int, say: Callable[[str], None]) -> StageDetector:
    """Kinds of words and words in BoolQ's passages."""
    prose = Prose.of(passages(), WORDS, WINDOW, HELD_OUT)
    detector = StageDetector(["kind", "function words", "content words, new", "content words, repeated"])

    def read(step: int, losses: dict[str, float]) -> None:
        for event in detector.update(step, losses):
            say(f"step {step}: {event}")

    train(prose, TEXT, RATE, seed, read)
    return detector


CORPORA: dict[str, Callable[[int, Callable[[str], None]], StageDetector]] = {"facts": facts, "text": text}


def measured(corpus: str, seed: int) -> tuple[dict[str, Any], StageDetector]:
    """What the detector said while training went on, and what it says at the end."""
    heard: Heard = []
    start = time.process_time()
    detector = CORPORA[corpus](seed, heard.append)
    found = detector.findings
    return {
        "corpus": corpus,
        "seed": seed,
        "seconds": round(time.process_time() - start),
        "heard": heard,
        "summary": found.summary().splitlines(),
        "order": list(found.order.names),
        "certainty": [round(sure, 4) for sure in found.order.certainty],
        "table": json.loads(str(found.table.to_json(orient="records", double_precision=4))),
        "readings": {
            str(name): [round(loss, 4) for loss in part["loss"]]
            for name, part in detector.readings.groupby("group", sort=False)
        },
    }, detector


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", choices=list(CORPORA))
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1])
    given = parser.parse_args()
    for number, seed in enumerate(given.seeds):
        row, detector = measured(given.corpus, seed)
        print("\n".join([f"{given.corpus}, seed {seed}", *row["heard"], *row["summary"]]), flush=True)
        before = json.loads(PLACE.read_text()) if PLACE.exists() else []
        kept = [old for old in before if (old["corpus"], old["seed"]) != (given.corpus, seed)]
        write_json(PLACE, sorted([*kept, row], key=lambda row: (row["corpus"], row["seed"])))
        if number == 0:
            detector.plot(PICTURES / f"stages-{given.corpus}.png")


if __name__ == "__main__":
    main()
