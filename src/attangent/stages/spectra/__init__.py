"""Singular values of attention weights, and models with some of them taken away."""
