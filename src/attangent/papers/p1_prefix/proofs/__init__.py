"""Exact arguments for the statements of P1 that fail; each function returns a `Proof`."""
