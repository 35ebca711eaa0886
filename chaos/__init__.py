"""Fault injection and fuzzing: `make chaos`. Slower than the tests, so not part of them."""
