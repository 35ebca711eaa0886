"""Claims of P4, in-context learning with representations."""

from attangent.audit.plugins import Paper

PAPER = Paper(
    title="In-Context Learning with Representations: Contextual Generalization of Trained Transformers",
    authors="Yang, Huang, Liang, Chi",
    year="2024",
    link="https://arxiv.org/abs/2408.10147",
    subject="In-context learning with representations",
    note="The claims speak of the version of 27 September 2024.",
)
