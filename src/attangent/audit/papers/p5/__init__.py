"""Claims of P5: why attention fails in time-series forecasting."""
