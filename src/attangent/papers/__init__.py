"""One package per paper: its system, its claims and its repairs."""
