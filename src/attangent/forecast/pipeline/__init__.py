"""Forecasts with intervals and reasons: choosing, calibrating, evaluating, diagnosing."""
