"""Serve compressed prompts: our own server, and exports for other engines."""
