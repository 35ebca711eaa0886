"""Executable claims: run them, load their findings, render the report."""

from attangent.audit.claims import Claim, Failure, Settings
from attangent.audit.finding import Conclusion, Figure, Finding, Hypothesis, Series, Trend, Verdict
from attangent.audit.plugins import Paper
from attangent.audit.proofs import Proof, Step
from attangent.audit.registry import all_claims, claim, get
from attangent.audit.results import Result, Run, load
from attangent.audit.runner import run

__all__ = [
    "Claim",
    "Conclusion",
    "Failure",
    "Figure",
    "Finding",
    "Hypothesis",
    "Paper",
    "Proof",
    "Result",
    "Run",
    "Series",
    "Settings",
    "Step",
    "Trend",
    "Verdict",
    "all_claims",
    "claim",
    "get",
    "load",
    "run",
]
