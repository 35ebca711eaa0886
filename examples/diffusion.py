"""Train a score network on points of the plane, draw samples from it, and measure how good they are.

For your own data, use `noised_data(points, process, copies=2)` instead of `draw_data`.
"""

import torch

from attangent.papers.p2_softmax import (
    ForwardProcess,
    GaussianMixture,
    NaturalInputs,
    SoftmaxScore,
    draw_data,
    mode_coverage,
    sample,
    sample_quality,
)

process = ForwardProcess(T=5.0, T0=0.02)
target = GaussianMixture.ring(modes=4, radius=0.7, sd=0.1)
data = draw_data(target, process, n=256, seed=0)
model = SoftmaxScore(process, m=128, inputs=NaturalInputs()).fit(data)
samples = sample(model, process, n=1000, method="sde", steps=50)

rng = torch.Generator().manual_seed(1)
truth = process.noised(target.draw(1000, rng), process.T0, rng)
print("modes covered:", mode_coverage(samples, target.at(process, process.T0)).covered, "of 4")
print(f"distance to true samples / distance between true samples: {sample_quality(samples, truth).ratio:.1f}")
