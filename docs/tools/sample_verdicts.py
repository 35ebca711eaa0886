"""Draw verdicts for an independent reading, and score the readings.

    python docs/tools/sample_verdicts.py draw RUN OUT [--size 30] [--seed 0]
    python docs/tools/sample_verdicts.py score READINGS.csv [READINGS.csv ...]

`draw` picks statements of the papers from a finished run. It writes OUT/dossier.md, all that the audit says
of each, and OUT/readings.csv, which a reader fills in: accepted is yes or no, note says why. `score` prints
the share of accepted verdicts with its 95 % interval (Wilson), for each reader and for what all accept.
"""

import argparse
import csv
import random
from collections.abc import Iterator
from pathlib import Path

from scipy.stats import binomtest

from attangent.audit import Result, load
from attangent.audit.report.phrases import headline, reason, values

COLUMNS = ("claim", "verdict", "accepted", "note")
ANSWERS = {"yes": True, "no": False}


def draw(results: list[Result], size: int, seed: int) -> list[Result]:
    """Return a random sample of the papers' own statements, in the order of the run."""
    printed = [result for result in results if not result.is_ours]
    chosen = set(random.Random(seed).sample(range(len(printed)), min(size, len(printed))))
    return [result for index, result in enumerate(printed) if index in chosen]


def dossier(result: Result) -> str:
    """Return all that the audit says of a statement, as Markdown."""
    origin = result.origin
    texts = {
        "Printed": origin.quote,
        "In our words": origin.statement,
        "Verdict": f"{headline(result)}. {reason(result)}",
        "Nature": origin.nature,
        "In plain words": origin.plain,
        "Added by us": "; ".join(origin.ours),
        "Reply or erratum": origin.erratum,
        "Remark": result.deciding.finding.remark,
    }
    if origin.failure is not None:
        texts |= {
            "Cause": origin.failure.root or origin.failure.cause,
            "Consequence": origin.failure.consequence,
            "First fails at": origin.failure.first_size,
        }
    told = [f"**{name}:** {text}" for name, text in texts.items() if text]
    return "\n\n".join(
        [f"## {result.claim}: {origin.title} ({origin.place})", *told, "\n".join(evidence(result))]
    )


def evidence(result: Result) -> Iterator[str]:
    """Yield the proof and the lines of the finding that decides."""
    finding = result.deciding.finding
    for number, step in enumerate(finding.proof.steps if finding.proof else (), 1):
        yield f"{number}. {step.text} $`{step.formula}`$ (checked exactly)"
    for text in (*finding.differs, *([finding.smaller] if finding.smaller else [])):
        yield f"- differs from the paper: {text}"
    for hypothesis in finding.hypotheses:
        comparison = f"{hypothesis.measured:.6g} {hypothesis.relation} {hypothesis.required:.6g}"
        yield f"- condition: {hypothesis.name}: {comparison}, {'met' if hypothesis.met else 'not met'}"
    for line in finding.conclusions:
        measured, bound = values(line)
        weight = "decides" if line.decides else "does not decide"
        yield f"- line ({weight}): {line.name}: {measured} {line.relation} {bound}, 95 %: {line.confidence}"


def write(run: Path, out: Path, size: int, seed: int) -> None:
    sample = draw(load(run).results(), size, seed)
    out.mkdir(parents=True, exist_ok=True)
    (out / "dossier.md").write_text("\n\n".join(map(dossier, sample)) + "\n", encoding="utf-8")
    with (out / "readings.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows((result.claim, result.verdict.value, "", "") for result in sample)


def read(path: Path) -> dict[str, bool]:
    """Return which verdicts a reader accepted; end if an answer is missing."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        if row["accepted"] not in ANSWERS:
            raise SystemExit(
                f"{path}: accepted must be yes or no for {row['claim']} (got {row['accepted']!r})"
            )
    return {row["claim"]: ANSWERS[row["accepted"]] for row in rows}


def scored(accepted: list[bool]) -> str:
    interval = binomtest(sum(accepted), len(accepted)).proportion_ci(method="wilson")
    share = sum(accepted) / len(accepted)
    return f"{sum(accepted)} of {len(accepted)}: {share:.1%} ({interval.low:.1%} to {interval.high:.1%})"


def score(paths: list[Path]) -> Iterator[str]:
    readings = {path: read(path) for path in paths}
    for path, reading in readings.items():
        yield f"{path}: {scored(list(reading.values()))}"
    first = next(iter(readings.values()))
    if any(reading.keys() != first.keys() for reading in readings.values()):
        raise SystemExit("the readings are about different claims; score those of one sample together")
    shared = [all(reading[claim] for reading in readings.values()) for claim in first]
    yield f"accepted by all: {scored(shared)}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    drawing = commands.add_parser("draw")
    drawing.add_argument("run", type=Path)
    drawing.add_argument("out", type=Path)
    drawing.add_argument("--size", type=int, default=30)
    drawing.add_argument("--seed", type=int, default=0)
    commands.add_parser("score").add_argument("readings", type=Path, nargs="+")
    options = parser.parse_args()
    if options.command == "draw":
        write(options.run, options.out, options.size, options.seed)
    else:
        print("\n".join(score(options.readings)))
