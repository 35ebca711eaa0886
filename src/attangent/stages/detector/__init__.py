"""Stages in a training run."""
