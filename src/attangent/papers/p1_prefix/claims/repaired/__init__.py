"""Repaired forms of the statements of P1 that fail; docs/repairs-p1.md derives them."""
