"""neural-tangents as a contestant, in an environment of its own.

It needs a jax of its time, numpy below 2 and scipy below 1.12. The environment is built once, on first use,
under benchmarks/.envs; where it cannot be, the row of the table says why.
"""

import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness.benchmark import Outside, Size
from benchmarks.harness.child import Unavailable
from benchmarks.harness.entrants import ROOT

ENVIRONMENTS = ROOT / "benchmarks" / ".envs"
REQUIREMENTS = ("jax==0.4.23", "jaxlib==0.4.23", "numpy<2", "scipy<1.12", "neural-tangents==0.6.5")
Arrays = Mapping[str, NDArray[np.float64]]


def neural_tangents(name: str, implementation: str, model: str, inputs: Callable[[Size], Arrays]) -> Outside:
    """A contestant that computes the kernel of `model`, softmax or prefix, by one of its implementations."""

    def command(size: Size) -> Sequence[str]:
        python = interpreter()
        return [
            str(python), "-m", "benchmarks.suites.kernels.neural_tangents_child", implementation, model,
            str(_written(model, size, inputs(size))),
        ]  # fmt: skip

    return Outside(name, command)


def interpreter(folder: Path = ENVIRONMENTS / "neural-tangents") -> Path:
    """The environment's Python, installed if it is not there yet."""
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        _call(sys.executable, "-m", "venv", str(folder))
        _call(str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *REQUIREMENTS)
        (folder / "complete").touch()
    return python


def _call(*command: str) -> None:
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        said = [
            line for line in ran.stderr.splitlines() if line.startswith("ERROR")
        ] or ran.stderr.splitlines()
        raise Unavailable(f"cannot be installed here: {said[-1] if said else 'no reason given'}")


def _written(model: str, size: Size, arrays: Arrays) -> Path:
    """The inputs as a file, so that the contestant works on the very same numbers."""
    folder = ENVIRONMENTS / "inputs"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{model}-{'-'.join(f'{key}{value}' for key, value in size.items())}.npz"
    np.savez(path, **arrays)
    return path
