"""Forecasts of many series: tried on the past, combined, with intervals, in tables."""
