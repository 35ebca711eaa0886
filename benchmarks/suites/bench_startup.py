"""What a user waits for before anything is done: commands of ours beside the import of other libraries.

Each is a process of its own, on one core. ATTANGENT_RIVALS may name the Python of an environment that has
statsforecast, where it is not installed beside us.
"""

import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.harness.benchmark import Benchmark, Contestant, Goal, Size
from benchmarks.harness.child import Unavailable, Work


def started(*arguments: str, python: str = sys.executable) -> Work:
    """A process with these arguments; what it prints is thrown away."""

    def work() -> None:
        subprocess.run([python, *arguments], check=True, stdout=subprocess.DEVNULL)

    return work


def ours(*arguments: str) -> Callable[[Size], Work]:
    return lambda size: started("-m", "attangent", *arguments)


def importing(name: str) -> Callable[[Size], Work]:
    def build(size: Size) -> Work:
        rivals = os.environ.get("ATTANGENT_RIVALS")
        if importlib.util.find_spec(name) is not None:
            return started("-c", f"import {name}")
        if rivals is None:
            raise Unavailable(f"{name} is not installed, and ATTANGENT_RIVALS names no Python that has it")
        return started("-c", f"import {name}", python=rivals)

    return build


def forecasting(size: Size) -> Work:
    """The forecast of a table of `rows` months."""
    folder = Path(tempfile.mkdtemp(prefix="attangent-startup-"))
    table = folder / "months.csv"
    table.write_text("\n".join(["month,sold", *_months(size["rows"])]) + "\n")
    return started("-m", "attangent", "forecast", str(table), "--horizon", "6", "--quiet")


def _months(rows: int) -> Sequence[str]:
    return [
        f"{2015 + i // 12}-{i % 12 + 1:02}-01,{100 + i + 20 * (i % 12 in (5, 6, 7))}" for i in range(rows)
    ]


_AT = {"rows": 60}
BENCHMARKS = [
    Benchmark(
        name="start-up",
        about="Processes from start to end on one core: commands of attangent beside the bare import of "
        "other libraries. `forecast` is that of a CSV of 60 months.",
        sizes=[_AT],
        contestants=[
            Contestant("import torch", importing("torch"), same_work=False),
            Contestant("attangent --help", ours("--help"), same_work=False),
            Contestant("attangent audit --list", ours("audit", "--list"), same_work=False),
            Contestant("attangent forecast", forecasting, same_work=False),
            Contestant("import statsforecast", importing("statsforecast"), same_work=False),
            Contestant("import peft", importing("peft"), same_work=False),
        ],
        baseline="import torch",
        goals=[
            Goal("attangent --help", "import torch", _AT, at_most=0.25),
            Goal("attangent audit --list", "import torch", _AT, at_most=0.5),
            Goal("attangent forecast", "import torch", _AT, at_most=1.0),
        ],
    )
]
