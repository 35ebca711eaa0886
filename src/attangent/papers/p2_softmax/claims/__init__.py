"""P2: the tangent kernel of two-layer softmax networks."""

from attangent.audit.plugins import Paper

PAPER = Paper(
    title="Exploring the Frontiers of Softmax: "
    "Provable Optimization, Applications in Diffusion Model, and Beyond",
    authors="Gu, Li, Liang, Shi, Song",
    year="2024",
    link="https://arxiv.org/abs/2405.03251",
    subject="The tangent kernel of two-layer softmax networks",
)
