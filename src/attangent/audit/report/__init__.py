"""Findings as pages: HTML, Markdown, figures."""
