"""Planned beside real, in tables and words."""

import statistics
from collections.abc import Sequence

from benchmarks.planning.groups import Group, Pair, Whole


def table(found: Sequence[Group]) -> str:
    """A line for each task and method. Losses: those that the plan is sure of; accuracies: all."""
    lines = [
        "| task | method | sure of loss | loss off | sure of accuracy | accuracy off | in interval "
        "| unwarned | rank | default | taken | best | cost |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for group in found:
        losses, scores = group.sure_losses, [abs(pair.score_off) for pair in group.pairs]
        loss = f"{100 * statistics.fmean(losses):.1f} %" if losses else ""
        ends = (
            f"{_share(group.default)} | {_share(group.chosen)} | {group.best:.3f} | {group.cost:.2f} |"
            if len(group.pairs) == 8
            else "| | | |"
        )
        lines.append(
            f"| {group.name} | {group.method} | {len(losses)} of {len(group.pairs)} | {loss} | "
            f"{len(group.sure_scores)} | {statistics.fmean(scores):.1f} | {group.inside} | {group.silent} | "
            f"{group.rank:.2f} | {ends}"
        )
    return "\n".join(lines)


def _share(pair: Pair | None) -> str:
    return "" if pair is None else f"{pair.accuracy:.3f}"


def whole_table(found: Sequence[Whole]) -> str:
    """A line for each task: what the default, the plan and the best of all runs come to."""
    lines = [
        "| task | tune's default | plan, no trials | plan | best of 24 | taken | foretold | cost |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for whole in found:
        pair = whole.taken
        run = None if pair is None else pair.planned
        what = "" if run is None else f"{run.method} {run.learning_rate:g} for {run.epochs:g}"
        foretold = "" if run is None else f"{run.score:.3f} ({run.low:.3f} to {run.high:.3f})"
        lines.append(
            f"| {whole.groups[0].name} | {_share(whole.default)} | {_share(whole.without_trials)} | "
            f"{_share(pair)} | {whole.best:.3f} | {what} | {foretold} | {whole.cost:.2f} |"
        )
    return "\n".join(lines)


def summary(found: Sequence[Group]) -> str:
    """All runs together, in words."""
    losses = [off for group in found for off in group.sure_losses]
    sure = [off for group in found for off in group.sure_scores]
    pairs = [pair for group in found for pair in group.pairs]
    lazy = [abs(pair.score_off) for pair in pairs if pair.planned.departure <= 0.5]
    whole = [group for group in found if len(group.pairs) == 8]
    lines = [
        f"training loss: sure of {len(losses)} of {len(pairs)} runs, {sum(off > 0.05 for off in losses)} of "
        f"them off by more than 5 %, {100 * statistics.fmean(losses or [0]):.1f} % on the mean",
        f"accuracy: sure of {len(sure)} runs, {sum(off > 2 for off in sure)} of them off by more than 2 "
        f"points, {statistics.fmean(sure or [0]):.1f} on the mean; {statistics.fmean(lazy or [0]):.1f} in "
        f"the lazy regime; {statistics.fmean(abs(pair.score_off) for pair in pairs):.1f} over all; "
        f"{sum(pair.inside for pair in pairs)} inside the interval",
        _choices(whole),
        f"cost without trials: {sum(g.seconds for g in whole):.0f} s of CPU in place of "
        f"{sum(g.real_seconds for g in whole):.0f} s; at most {max(g.megabytes for g in found):.0f} MB",
        _chance(pairs),
    ]
    return "\n".join(line for line in lines if line)


def _choices(found: Sequence[Group]) -> str:
    """How the rate that is taken stands to the best one and to `tune`'s own."""
    both = [(group, group.chosen, group.default) for group in found]
    known = [(g, chosen, usual) for g, chosen, usual in both if chosen is not None and usual is not None]
    if not known:
        return ""
    lost = [100 * (group.best - chosen.accuracy) for group, chosen, _ in known]
    gained = [100 * (chosen.accuracy - usual.accuracy) for _, chosen, usual in known]
    usual_lost = [100 * (group.best - usual.accuracy) for group, _, usual in known]
    return (
        f"the rate taken: {sum(x < 1.01 for x in lost)} of {len(known)} within a point of the best, "
        f"{statistics.fmean(lost):.1f} points below it on the mean; tune's own: "
        f"{sum(x < 1.01 for x in usual_lost)}, {statistics.fmean(usual_lost):.1f}; the plan's is better on "
        f"{sum(x > 0.01 for x in gained)}, worse on {sum(x < -0.01 for x in gained)}, "
        f"{statistics.fmean(gained):+.1f} on the mean; rank .8 or more on {sum(g.rank >= 0.8 for g in found)}"
    )


def _chance(pairs: Sequence[Pair]) -> str:
    """How far two seeds of one run lie apart."""
    apart = [
        100 * abs(pair.reals[0]["accuracy"] - pair.reals[1]["accuracy"])
        for pair in pairs
        if len(pair.reals) > 1
    ]
    if not apart:
        return ""
    mean = statistics.fmean(apart)
    return f"two seeds of a run: {mean:.1f} points apart on the mean, at most {max(apart):.1f}"


def detail(found: Sequence[Group]) -> str:
    """Every run: planned and real; ? where the plan is not sure of a figure."""
    lines = [
        "| task | method | rate | departure | loss | real | accuracy | real |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for group in found:
        for pair in group.pairs:
            run = pair.planned
            loss, score = ("" if sure else "?" for sure in (run.loss_sure, run.score_sure))
            lines.append(
                f"| {group.name} | {group.method} | {run.learning_rate:g} | {run.departure:.2f} | "
                f"{run.train_loss:.4f}{loss} | {statistics.fmean(pair.real['losses']):.4f} | "
                f"{run.score:.3f}{score} | {pair.real['accuracy']:.3f} |"
            )
    return "\n".join(lines)
