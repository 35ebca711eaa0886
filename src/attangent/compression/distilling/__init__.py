"""Virtual tokens that are trained after the closed form."""
