"""Tuning methods on the same splits of small data sets."""
