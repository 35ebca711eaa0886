"""Claims of P5: why attention fails in time-series forecasting."""

from attangent.audit.plugins import Paper

PAPER = Paper(
    title="Curse of Attention: A Kernel-Based Perspective for Why Transformers Fail to Generalize "
    "on Time Series Forecasting and Beyond",
    authors="Ke, Liang, Shi, Song, Yang",
    year="2024",
    link="https://arxiv.org/abs/2412.06061",
    subject="Attention in time-series forecasting",
)
