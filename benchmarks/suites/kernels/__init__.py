"""Tangent kernels."""
