"""Every way to compute attention with a prefix."""
