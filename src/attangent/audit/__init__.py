"""Executable claims: run them, load their findings, render the report."""

from attangent.audit.claims import Claim, Settings
from attangent.audit.finding import Conclusion, Figure, Finding, Hypothesis, Series, Trend, Verdict
from attangent.audit.plugins import Paper
from attangent.audit.registry import all_claims, claim, get
from attangent.audit.results import Result, Run, load
from attangent.audit.running.runner import run

__all__ = [
    "Claim",
    "Conclusion",
    "Figure",
    "Finding",
    "Hypothesis",
    "Paper",
    "Result",
    "Run",
    "Series",
    "Settings",
    "Trend",
    "Verdict",
    "all_claims",
    "claim",
    "get",
    "load",
    "run",
]
