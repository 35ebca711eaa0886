"""A long prompt becomes a prefix of constant size."""
