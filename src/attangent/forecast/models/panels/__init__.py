"""Models of many series at once: naive forecasts, exponential smoothing, Theta, a pooled ridge."""
