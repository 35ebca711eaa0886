"""Adapters as folders: their format, and reading and writing them."""
