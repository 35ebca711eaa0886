"""Stages in a training run of your own."""
