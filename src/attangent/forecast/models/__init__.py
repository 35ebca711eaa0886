"""Forecasters: baselines, closed forms, models trained by gradients."""
