"""Two-stage learning as P3 models it: data, attention, noisy descent, the floor of the hard part."""
