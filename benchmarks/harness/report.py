"""benchmarks/results/results.json and the Markdown page made of it."""

import json
import os
import tempfile
from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from attangent._core.errors import AttangentError
from benchmarks.harness.benchmark import Benchmark, label
from benchmarks.harness.changes import LEAST, changes

Results = dict[str, Any]
COMMAND = "python -m benchmarks"


def load(path: Path) -> Results:
    """What earlier runs measured; nothing where there is no file yet."""
    if not path.exists():
        return {"about": {}, "rows": [], "goals": []}
    try:
        results = json.loads(path.read_text())
        if {"about", "rows", "goals"} <= set(results):
            return results
    except (json.JSONDecodeError, TypeError):
        pass
    raise AttangentError(f"{path} is not a file of benchmark results: restore or delete it")


def merge(results: Results, benchmark: Benchmark, rows: Sequence[Mapping], known: Collection[str]) -> Results:
    """`results` with the rows of this benchmark replaced, and those of benchmarks not `known` dropped."""
    kept = set(known) - {benchmark.name}
    new = {
        "about": {benchmark.name: benchmark.about},
        "rows": list(rows),
        "goals": [goal.verdict(benchmark.name, rows) for goal in benchmark.goals],
    }
    about = {name: text for name, text in results["about"].items() if name in kept}
    merged: Results = {"about": dict(sorted((about | new["about"]).items()))}
    for part in ("rows", "goals"):
        old = [entry for entry in results[part] if entry["name"] in kept]
        merged[part] = sorted(old + new[part], key=lambda entry: entry["name"])
    return merged


def write(path: Path, text: str) -> None:
    """Write the file whole or not at all."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        try:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
            os.chmod(file.name, 0o644)
            os.replace(file.name, path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise


def markdown(results: Results, released: Results | None = None) -> str:
    """The page docs/benchmarks.md; with those of the last release, what changed since."""
    lines = ["# Benchmarks", "", *_HOW_TO_READ, ""]
    if released and released["rows"]:
        lines += [*_change_lines(results, released), ""]
    for name, about in results["about"].items():
        rows = [row for row in results["rows"] if row["name"] == name]
        goals = [goal for goal in results["goals"] if goal["name"] == name]
        lines += [f"## {name}", "", about, "", *table(rows), "", *_conditions(rows), ""]
        lines += [*_goal_table(goals), ""] if goals else []
        lines += [f"Made by `{COMMAND} --only {name}`.", ""]
    return "\n".join(lines)


def _change_lines(results: Results, released: Results) -> list[str]:
    version = released.get("version", "the last release")
    found = changes(results["rows"], released["rows"])
    lines = [f"## Changes since {version}", ""]
    if not found:
        return [*lines, f"No ratio differs by {LEAST:.0%} or more."]
    head = "benchmark", "size", "contestant", "baseline", f"time / baseline in {version}", "now", "now / then"
    lines += [f"Ratios that differ by {LEAST:.0%} or more, the slower first.", "", _line(head)]
    lines.append(_line(["---"] * 4 + ["---:"] * 3))
    return lines + [
        _line([*change[:4], _number(change.then), _number(change.now), _number(change.factor)])
        for change in found
    ]


_HOW_TO_READ = [
    f"Written from benchmarks/results/results.json by `{COMMAND}`; `--only NAME` measures one benchmark.",
    "A ratio compares with the named baseline in the same run: contestants take turns, the order",
    "rotates from round to round, and the smallest time of each counts. Beside it stands the median of the",
    "rounds' own ratios with its 95 % interval; rounds go on until that is 5 % wide or the time is up. The",
    "load is how many processes wanted one of the machine's cores meanwhile, the benchmark's own threads",
    "included. Peak memory is what one call holds at most above the level",
    "before it, its result included, measured on the whole of a fresh process. Contestants of the same work",
    "are checked to agree before they are timed.",
]


def table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The rows of one benchmark as a Markdown table."""
    baseline = rows[0]["baseline"]
    head = (
        "size",
        "contestant",
        f"time / {baseline}",
        "median, interval",
        "time",
        f"memory / {baseline}",
        "peak memory",
    )
    return [_line(head), _line(["---"] * 2 + ["---:"] * 5), *(_line(_cells(row)) for row in rows)]


def _cells(row: Mapping[str, Any]) -> list[str]:
    name = [label(row["size"]), row["contestant"]]
    if row["unavailable"]:
        return [*name, f"not run: {row['unavailable']}".replace("|", "\\|"), "", "", "", ""]
    return [
        *name,
        _number(row["ratio"]),
        _spread(row) if row["contestant"] != row["baseline"] else "",
        _scaled(row["seconds"], (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6))),
        _number(row["peak_ratio"]),
        _scaled(row["peak_bytes"], (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))),
    ]


def _spread(row: Mapping[str, Any]) -> str:
    """The median with its interval, or the range of rounds where there were too few or none were kept."""
    middle, interval = row.get("median_ratio"), row.get("interval") or row["ratio_by_round"]
    span = f"{_number(interval[0])} to {_number(interval[1])}" if interval else ""
    return span if middle is None else f"{_number(middle)}, {span}"


def _conditions(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """One line for each set of conditions the rows were measured under."""
    lines = []
    for row in rows:
        versions = ", ".join(f"{name} {number}" for name, number in row["versions"].items())
        threads = f"{row['threads']} thread" + "s" * (row["threads"] > 1)
        load = f", load {row['load']:.0f}" if "load" in row else ""
        lines.append(f"{row['cpu']}, {threads}, {row['rounds']} rounds{load}, {row['date']}; {versions}.")
    measured = [line for line, row in zip(lines, rows, strict=True) if not row["unavailable"]]
    return [line for line, _ in groupby(sorted(measured))]


def _goal_table(goals: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = [_line(("goal", "at most", "measured", "")), _line(["---", "---:", "---:", "---"])]
    for goal in goals:
        measured = goal["measured"]
        met = "" if measured is None else "met" if measured <= goal["at_most"] else "not met"
        lines.append(_line((goal["goal"], _number(goal["at_most"]), _number(measured), met)))
    return lines


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _number(value: float | None) -> str:
    return "not measured" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _scaled(value: float | None, units: Sequence[tuple[str, float]]) -> str:
    if value is None:
        return "not measured"
    unit, scale = next(((u, s) for u, s in units if value >= s), units[-1])
    return f"{_number(value / scale)} {unit}"
