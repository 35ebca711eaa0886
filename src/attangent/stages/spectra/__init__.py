"""Singular values of a model's weights."""
