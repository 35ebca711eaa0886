"""What the drill compares."""

import json
import subprocess
import sys

import pytest

from benchmarks.kills import ends, killed, listing


def run(folder, loss, weights=b"w", seconds=1.0):
    (folder / "seed-0/adapter").mkdir(parents=True)
    (folder / "seed-0/metrics.json").write_text(json.dumps({"eval_loss": loss, "seconds": seconds}))
    (folder / "seed-0/adapter/adapter_model.safetensors").write_bytes(weights)
    return ends(folder)


def test_times_may_differ_and_nothing_else(tmp_path):
    first = run(tmp_path / "a", 0.5)
    assert first == run(tmp_path / "b", 0.5, seconds=2.0)
    assert first != run(tmp_path / "c", 0.50001)
    assert first != run(tmp_path / "d", 0.5, b"v")


def test_a_process_is_killed_once_the_folder_has_changed(tmp_path):
    writes = f"import pathlib, time; pathlib.Path({str(tmp_path / 'x')!r}).write_text('1'); time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", writes])
    assert killed(process, tmp_path, 1)
    assert process.returncode == -9
    assert listing(tmp_path) == {(str(tmp_path), 0), (str(tmp_path / "x"), 1)}


def test_one_that_ends_by_itself_is_not_killed_and_a_failure_is_said(tmp_path):
    assert not killed(subprocess.Popen([sys.executable, "-c", ""]), tmp_path, 1)
    with pytest.raises(SystemExit, match="ended with 3"):
        killed(subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"]), tmp_path, 1)
