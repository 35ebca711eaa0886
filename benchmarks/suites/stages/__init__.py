"""Stages of training runs."""
