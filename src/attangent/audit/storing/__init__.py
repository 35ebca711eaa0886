"""Findings on disk."""
