"""Claims of P3, two-stage learning."""

from attangent.audit.plugins import Paper

PAPER = Paper(
    title="Mastering Syntax, Unlocking Semantics: "
    "A Mathematically Provable Two-stage Learning Process in Transformers",
    authors="anonymous",
    year="2024",
    link="https://openreview.net/forum?id=hNkXTqDrfb",
    subject="Two-stage learning: syntax before semantics",
    note="The claims speak of this first version, withdrawn in December 2024; a revised paper is "
    "arXiv 2502.20681, Disentangling Feature Structure.",
    status="audited in the version withdrawn in December 2024",
    erratum="Audited in the first version, withdrawn in December 2024; a revised paper is arXiv 2502.20681.",
)
