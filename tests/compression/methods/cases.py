"""A random prompt, its queries and their attention, and how well virtual tokens stand for it."""

import torch

from attangent.compression.problem import HeadProblem


def problem(n=300, m=24, tokens=6, d=4, seed=0, gain=2.0, alike=0):
    """Random queries, prompt and text, with their attention; the last `alike` tokens are much alike."""
    draw = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(rows, d, generator=draw) for rows in (n, m, m))
    if alike:
        k[-alike:] = k[-alike:] / 20 + 1
        q = q + 1
    near_k, near_v = torch.randn(tokens, d, generator=draw), torch.randn(tokens, d, generator=draw)
    logits = gain * q @ torch.cat([k, near_k]).mT / d**0.5
    chances, total = logits.softmax(dim=1), logits.logsumexp(dim=1)
    weights, rest = chances[:, :m], chances[:, m:].sum(dim=1)
    rest_output = chances[:, m:] @ near_v / rest.unsqueeze(1)
    output = weights @ v + rest.unsqueeze(1) * rest_output
    return HeadProblem(weights.sum(dim=1), rest, rest_output, output, k, v, gain * q / d**0.5, total)


def error(given, solution, chosen):
    """Mean squared error of the output of virtual tokens that stand where `chosen` stands."""
    _, masses, values = solution
    part = given.weights[:, chosen] * masses
    total = part.sum(dim=1) + given.rest
    found = (part @ values + given.rest.unsqueeze(1) * given.rest_output) / total.unsqueeze(1)
    return (found - given.output).square().mean().item()
