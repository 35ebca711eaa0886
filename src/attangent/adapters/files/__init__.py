"""Adapters as folders: written whole, read with suspicion."""

from attangent.adapters.files.save import load_adapter, save_adapter

__all__ = ["load_adapter", "save_adapter"]
