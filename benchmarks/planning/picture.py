"""Accuracy over rates, planned and real, one panel for each task and method."""

from pathlib import Path
from typing import Any

from attangent._files import writing
from benchmarks.planning.groups import Group


def picture(found: list[Group], path: Path) -> None:
    from matplotlib.figure import Figure

    shown = [group for group in found if len(group.pairs) == 8]
    names = list(dict.fromkeys(group.name for group in shown))
    methods = list(dict.fromkeys(group.method for group in shown))
    figure = Figure(figsize=(3.2 * len(names), 2.7 * len(methods)), layout="constrained")
    panels: Any = figure.subplots(len(methods), len(names), squeeze=False)
    for panel in panels.flat:
        panel.set_axis_off()
    for group in shown:
        _panel(panels[methods.index(group.method)][names.index(group.name)], group)
    panels[0][0].legend(frameon=False, fontsize=8)
    with writing(path) as temporary:
        figure.savefig(temporary, dpi=110)


def _panel(panel: Any, group: Group) -> None:
    panel.set_axis_on()
    rates = [pair.planned.learning_rate for pair in group.pairs]
    planned = [pair.planned for pair in group.pairs]
    panel.fill_between(
        rates, [run.low for run in planned], [run.high for run in planned], color="#1f5fa8", alpha=0.15, lw=0
    )
    panel.plot(rates, [run.score for run in planned], "o-", ms=4, color="#1f5fa8", label="planned")
    wild = [(run.learning_rate, run.score) for run in planned if not run.score_sure]
    if wild:
        panel.plot(*zip(*wild, strict=True), "o", ms=7, mfc="none", color="#1f5fa8", label="marked ?")
    for seed in range(min(len(pair.reals) for pair in group.pairs)):
        real = [pair.reals[seed]["accuracy"] for pair in group.pairs]
        panel.plot(
            rates,
            real,
            "s-",
            ms=4,
            color="#c8553d",
            alpha=1 - 0.5 * seed,
            label="real" if seed == 0 else None,
        )
    if group.default is not None:
        panel.axvline(group.default.planned.learning_rate, color="#999999", lw=0.8, ls="--", label="default")
    if group.chosen is not None:
        panel.axvline(group.chosen.planned.learning_rate, color="black", lw=0.8, ls=":", label="taken")
    panel.set_xscale("log")
    panel.set_title(f"{group.name}, {group.method}", loc="left", fontsize=9)
    panel.tick_params(labelsize=8)
    panel.spines[["top", "right"]].set_visible(False)
