"""The claims, one package a paper; the registry loads the modules of those it is asked for."""
