"""Forecasters of windows of one series, and the protocol that papers score them by."""
