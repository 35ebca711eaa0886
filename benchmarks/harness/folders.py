"""Where benchmarks read and write."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"
ENVIRONMENTS = ROOT / "benchmarks" / ".envs"
IMAGES = ROOT / "docs" / "images"
