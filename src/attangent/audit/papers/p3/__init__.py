"""Claims of P3, two-stage learning."""
