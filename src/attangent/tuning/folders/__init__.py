"""Folders of tuned models: made complete, loaded, put to use."""
