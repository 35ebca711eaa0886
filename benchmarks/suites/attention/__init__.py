"""Attention and adapters."""
