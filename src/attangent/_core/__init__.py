"""Shared basics: errors, checks, files, random streams, parallel work, progress, tables and plots."""
