"""The stage detector on curves whose stages are known, beside a named rival.

    python -m benchmarks.suites.stages.detector [--curves 200] [--first-seed 0] [--jobs 1] [--only TEXT]

writes `benchmarks/results/detector_results.json` and prints its table: for curves without a stage the share
in which one is found; for curves with stages the share in which exactly those are found, how many of their
onsets are within 10 steps of 400, and how often the interval of an onset holds the true one. `while it
runs` is what StageDetector says as the readings come in. The rival is ruptures: change points of the mean
(KernelCPD with a linear kernel, the optimum that PELT with the l2 cost finds) at the BIC penalty, the
noise's standard deviation from differences of readings; a fall of the level is a stage, falls within 30
readings are one. Rows that are there already are kept unless measured again.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from attangent._core.files import write_json
from attangent.stages import StageDetector
from attangent.stages.group import examine
from benchmarks.harness.folders import RESULTS
from benchmarks.suites.stages.curves import CASES, Case, Curve

PLACE = RESULTS / "detector_results.json"
NEAR = 10.0
JOINED = 30
ONLINE = ("flat, autocorrelated (.9) 15 %", "flat, random walk 15 %", "exponential, independent noise 5 %")
Found = list[tuple[float, tuple[float, float]]]
"""Onsets with their intervals."""


def ours(curve: Curve) -> Found:
    group = examine("loss", range(len(curve.losses)), curve.losses)
    return [(stage.onset, stage.onset_interval) for stage in group.stages]


def online(curve: Curve) -> Found:
    """What `StageDetector` said while the readings came in."""
    detector = StageDetector(["loss"])
    events = [
        event for step, loss in enumerate(curve.losses) for event in detector.update(step, {"loss": loss})
    ]
    return [(event.step, (event.step, event.step)) for event in events if event.kind == "onset"]


def rupture(curve: Curve) -> Found:
    import ruptures

    noise = 1.4826 * np.median(np.abs(np.diff(curve.losses))) / np.sqrt(2)
    search = ruptures.KernelCPD(kernel="linear", min_size=5).fit(curve.losses[:, None])
    ends = search.predict(pen=2 * noise**2 * np.log(len(curve.losses)))
    levels = [part.mean() for part in np.split(curve.losses, ends[:-1])]
    falls = [end for end, before, after in zip(ends, levels, levels[1:], strict=False) if after < before]
    first = [end for before, end in zip([-np.inf, *falls], falls, strict=False) if end - before > JOINED]
    return [(float(end), (float(end), float(end))) for end in first]


METHODS: dict[str, Callable[[Curve], Found]] = {
    "find_stages": ours,
    "while it runs": online,
    "ruptures": rupture,
}


def measured(case: Case, method: str, seeds: Sequence[int], jobs: int) -> dict[str, Any]:
    """The rates of one method on one case."""
    curves = [case.draw(seed) for seed in seeds]
    found = Parallel(jobs)(delayed(METHODS[method])(curve) for curve in curves)
    row: dict[str, Any] = {"case": case.name, "kind": case.kind, "method": method, "curves": len(curves)}
    if case.kind != "stages":
        return {**row, "false": float(np.mean([bool(stages) for stages in found]))}
    right = [len(stages) == len(curve.onsets) for stages, curve in zip(found, curves, strict=True)]
    pairs = [
        (stage, onset)
        for stages, curve, same in zip(found, curves, right, strict=True)
        if same
        for stage, onset in zip(stages, curve.onsets, strict=True)
    ]
    return {
        **row,
        "right": float(np.mean(right)),
        "near": float(np.mean([abs(at - onset) <= NEAR for (at, _), onset in pairs] or [0.0])),
    } | ({"held": _held(pairs)} if method == "find_stages" else {})


def _held(pairs: list[Any]) -> float:
    """How many intervals hold the onset."""
    return float(np.mean([low <= onset <= high for (_, (low, high)), onset in pairs] or [0.0]))


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown, one line per case and method."""
    lines = ["| case | method | curves | false onsets | all found | onset within 10 | interval holds it |"]
    lines.append("|---|---|---|---|---|---|---|")
    for row in rows:
        figures = [
            f"{100 * row[name]:.1f} %" if name in row else "" for name in ("false", "right", "near", "held")
        ]
        lines.append("| " + " | ".join([row["case"], row["method"], str(row["curves"]), *figures]) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--curves", type=int, default=200)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", default="", help="cases whose name holds this text")
    parser.add_argument("--method", nargs="*", default=list(METHODS), choices=list(METHODS))
    given = parser.parse_args()
    seeds = range(given.first_seed, given.first_seed + given.curves)
    rows = []
    for method in given.method:
        for case in CASES:
            if given.only in case.name and (method != "while it runs" or case.name in ONLINE):
                rows.append(measured(case, method, seeds, given.jobs))
                print(rows[-1], flush=True)
    print(table(kept(rows)))


def kept(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All rows there are, these in the place of older ones, written to the file."""
    before = json.loads(PLACE.read_text()) if PLACE.exists() else []
    by_key = {(row["method"], row["case"]): row for row in (*before, *rows)}
    order = [(method, case.name) for method in METHODS for case in CASES]
    together = [by_key[key] for key in order if key in by_key]
    write_json(PLACE, together)
    return together


if __name__ == "__main__":
    main()
