"""Speed and memory as ratios to a named baseline; `python -m benchmarks` measures and writes the tables."""
