"""Predicted training beside the real one: `python -m benchmarks.planning FOLDER`."""
