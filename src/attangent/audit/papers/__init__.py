"""The claims, one package for each paper; the registry loads the modules of those it is asked for."""
