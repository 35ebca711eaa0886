"""The claims, one package a paper; every module below is loaded by the registry."""
