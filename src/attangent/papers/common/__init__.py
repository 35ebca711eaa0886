"""Measures and figures that the claims of several papers share."""
