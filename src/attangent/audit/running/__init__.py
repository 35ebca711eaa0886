"""Runs claims: in this process, in workers, on a cluster."""
