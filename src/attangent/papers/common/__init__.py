"""Measures that the claims of several papers share; no claim is registered here."""
