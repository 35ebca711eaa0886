"""The benchmark on fresh tasks: methods with an interpreter of their own, and the table."""

import json
import sys
from pathlib import Path

import pytest

from benchmarks.suites.tuning import fresh

TASKS = list(fresh.SIZES)


def rows(path, count):
    lines = ({"text": f"text {n}", "label": "ab"[n % 2]} for n in range(count))
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.mark.parametrize("method", fresh.CHILDREN)
def test_a_method_runs_in_its_own_interpreter(tmp_path, monkeypatch, method):
    """The stand-in for the interpreter checks the script and prints its arguments behind other output."""
    python = tmp_path / "python"
    code = (
        "import json, os, sys; print('noise'); print(json.dumps({'child': sys.argv[1], 'seed': sys.argv[5], "
        "'rows': len(open(sys.argv[3]).readlines()), 'path': 'PYTHONPATH' in os.environ}))"
    )
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{code}" "$@"\n')
    python.chmod(0o755)
    files = [rows(tmp_path / f"{part}.jsonl", 4) for part in ("train", "test")]
    monkeypatch.setattr(fresh, "minilm", lambda: "model")
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    monkeypatch.setenv(f"ATTANGENT_{method.upper()}_PYTHON", str(python))
    answer = fresh.run_child(method, *files, 2)
    child = Path(fresh.__file__).with_name(f"{method}_child.py")
    assert answer == {"child": str(child), "seed": "2", "rows": 4, "path": False}
    assert child.is_file()


@pytest.mark.parametrize("method", fresh.CHILDREN)
def test_a_missing_interpreter_is_named(tmp_path, monkeypatch, method):
    monkeypatch.delenv(f"ATTANGENT_{method.upper()}_PYTHON", raising=False)
    with pytest.raises(SystemExit, match=f"set ATTANGENT_{method.upper()}_PYTHON"):
        fresh.run_child(method, tmp_path, tmp_path, 0)


def test_differences_are_paired_and_averaged_by_task():
    gaps = {TASKS[0]: (0.02, 0.04), TASKS[1]: (0.01,)}
    runs = [
        {"task": task, "method": method, "subset": subset, "accuracy": 0.5 + gap * (method == "tune")}
        for task, values in gaps.items()
        for subset, gap in enumerate(values)
        for method in ("tune", "probe")
    ]
    runs.append({"task": TASKS[0], "method": "tune", "subset": 2, "accuracy": 0.9})  # without a pair
    text = fresh.table(runs)
    # Two tasks: 3 and 1, t(1) = 12.706; three pairs: 2, 4 and 1, t(2) = 4.303.
    assert "tune - probe: +2.0 ± 12.7 points over 2 tasks, +2.3 ± 3.8 over 3 pairs" in text
    assert "tune - setfit: too few pairs" in text
    assert f"| {TASKS[1]} (300) | 0.510 | 0.500 | - | - | - |" in text
