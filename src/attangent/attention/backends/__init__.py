"""Every way to compute attention with a prefix: `torch` operations, and compiled code in `cpu`."""
