"""One-layer attention, its trainers and its certificate."""
