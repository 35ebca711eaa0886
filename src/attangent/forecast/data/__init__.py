"""Series from files and frames, on a regular grid of times."""
