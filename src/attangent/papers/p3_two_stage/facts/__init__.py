"""Corpora of facts, and a small GPT-2 that learns them."""
