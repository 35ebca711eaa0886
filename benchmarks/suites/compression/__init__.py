"""Prompt compression."""
