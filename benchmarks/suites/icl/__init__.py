"""In-context learners."""
