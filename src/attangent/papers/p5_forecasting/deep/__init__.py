"""Forecasters trained by gradient descent."""
