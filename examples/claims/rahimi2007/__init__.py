"""Claims of Rahimi and Recht on random Fourier features."""

from attangent.audit import Paper

PAPER = Paper(
    title="Random Features for Large-Scale Kernel Machines",
    authors="Rahimi, Recht",
    year="2007",
    link="https://papers.nips.cc/paper/3182-random-features-for-large-scale-kernel-machines",
    subject="Kernels by random features",
)
