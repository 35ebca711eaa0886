"""Tuning methods side by side: settings, budgets, runs, the table."""
