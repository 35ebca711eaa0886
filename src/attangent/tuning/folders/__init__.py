"""Folders that `attangent tune` writes: export, loading and predictions."""
