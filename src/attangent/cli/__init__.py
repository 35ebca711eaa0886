"""The command line: one file for each family of commands."""

from attangent.cli.commands import app, main

__all__ = ["app", "main"]
