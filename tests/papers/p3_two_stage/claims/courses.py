"""Runs of two stages with what a test wants to see in them."""

import dataclasses

import torch

from attangent.papers.p3_two_stage.claims.stage_runs import two_stages


def short_run(settings, seed):
    return two_stages(settings | {"first_steps": 2, "second_steps": 2, "N": 4}, seed)


def with_losses(settings, seed, K1, K2):
    """A course whose losses are these throughout."""
    course, model = short_run(settings, seed)
    ones = torch.ones_like(course.losses.K)
    return dataclasses.replace(course, losses=course.losses._replace(K1=K1 * ones, K2=K2 * ones)), model


def run_with_norms(first, last):
    """Runs in which |signal of V| is `first` after the first stage and `last` at the end."""

    def run(settings, seed):
        course, model = short_run(settings, seed)
        norms, end = course.norm_V.clone(), course.ends[0]
        norms[-1] = last
        V = torch.zeros_like(end.signal.V)
        V[..., 0, 0, 0] = first
        ends = (dataclasses.replace(end, signal=end.signal._replace(V=V)), *course.ends[1:])
        return dataclasses.replace(course, norm_V=norms, ends=ends), model

    return run
