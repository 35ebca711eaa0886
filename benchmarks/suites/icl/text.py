"""What SmolLM2-135M does with a linear task in text: labelled numbers as a prompt, the rule of its answers.

    python -m benchmarks.suites.icl.text [--prompts 20] [--examples 16] [--queries 4] [--coordinates 1 2]

A prompt shows tokens "x: 0.3, -1.2" with labels "y: 0.8" of a linear function drawn anew, and asks for
other tokens. Writes `benchmarks/results/icl_text.json` and, for the first number of coordinates,
`docs/images/icl-smollm2.png`. Needs the packages that carry SmolLM2 (see
benchmarks/suites/compression/bench_compress.py).
"""

import argparse
import json
import time
from typing import Any

import torch

from attangent._core.files import write_json
from attangent.icl import Comparison, Dictionary, compare_to_ridge, text_predictor
from benchmarks.harness.folders import IMAGES, RESULTS
from benchmarks.suites.compression.bench_compress import smollm2

PLACE = RESULTS / "icl_text.json"
PICTURE = IMAGES / "icl-smollm2.png"


def compared(
    model: Any, tokenizer: Any, coordinates: int, examples: int, queries: int, prompts: int
) -> Comparison:
    """The model on linear functions of so many Gaussian coordinates, without noise."""
    dictionary = Dictionary.random(
        K=examples + queries,
        d=coordinates,
        m=coordinates,
        N=examples,
        tau=0.0,
        tokens="gaussian",
        representation=torch.eye(coordinates, dtype=torch.float64),
    )
    return compare_to_ridge(text_predictor(model, tokenizer), dictionary, prompts=prompts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, default=20)
    parser.add_argument("--examples", type=int, default=16)
    parser.add_argument("--queries", type=int, default=4)
    parser.add_argument("--coordinates", type=int, nargs="*", default=[1, 2])
    given = parser.parse_args()
    model, tokenizer = smollm2()
    rows = []
    for number, coordinates in enumerate(given.coordinates):
        start = time.process_time()
        found = compared(model, tokenizer, coordinates, given.examples, given.queries, given.prompts)
        seconds = round(time.process_time() - start)
        print(
            f"{coordinates} coordinates: {found.nearest} ({found.certainty:.0%}), {seconds} s\n{found.table}"
        )
        rows.append(
            {
                "coordinates": coordinates,
                "prompts": given.prompts,
                "examples": given.examples,
                "queries": given.queries,
                "nearest": found.nearest,
                "certainty": found.certainty,
                "own_risk": found.risk["predictor"],
                "seconds": seconds,
                "table": json.loads(str(found.table.to_json(orient="records", double_precision=4))),
            }
        )
        if number == 0:
            found.plot(PICTURE)
    write_json(PLACE, rows)


if __name__ == "__main__":
    main()
