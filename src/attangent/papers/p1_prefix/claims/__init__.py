"""Claims of P1: NTK-Attention and the kernel theory of long prefixes."""

from attangent.audit.plugins import Paper

PAPER = Paper(
    title="Towards Infinite-Long Prefix in Transformer",
    year="2024",
    link="https://arxiv.org/abs/2406.14036",
    subject="NTK-Attention: an infinitely long prefix in constant space",
)
