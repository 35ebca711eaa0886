"""Claims of P4, in-context learning with representations."""
