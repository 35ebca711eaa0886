"""Table 1 of P1 against its own sums and against the sentence about it: no run is needed."""

from attangent.audit.claims import Settings
from attangent.audit.finding import Conclusion, Figure, Finding, Series
from attangent.audit.registry import claim

P_TUNING = {
    1: (65.69, 67.06, 52.00, 53.59, 65.97, 60.86),
    10: (66.67, 74.07, 54.00, 54.17, 66.55, 63.10),
    100: (69.42, 74.54, 64.50, 61.62, 76.77, 69.37),
    200: (67.51, 70.11, 60.00, 58.37, 70.83, 65.36),
}
"""P-Tuning V2 by prefix length: BoolQ, CB, Copa, MultiRC, RTE and the printed average."""
OTHERS = {
    "LoRA": (76.52, 90.23, 86.50, 65.09, 87.76, 81.24),
    "NTK-Attention": (75.06, 96.04, 88.00, 65.85, 86.59, 82.31),
}
ROUNDING = 0.005
"""What rounding to two decimals can do to an average, and to the average that is printed."""


def beyond_rounding(row: tuple[float, ...]) -> float:
    """How far the printed average is from that of the printed accuracies, beyond what rounding explains."""
    *accuracies, printed = row
    return max(0.0, abs(sum(accuracies) / len(accuracies) - printed) - 2 * ROUNDING)


@claim(
    "P1/table-1-averages",
    place="Section 5, Table 1, last column",
    title="Averages of Table 1",
    kind="misprint",
    quote="LoRA r = 8: 76.52, 90.23, 86.50, 65.09, 87.76, Average 81.24",
    statement="""The last column of Table 1 is the average of the five before it, up to rounding.""",
    quick={"printed": {}},
    seeds=1,
    seconds=0.1,
)
def averages(settings: Settings, seed: int) -> Finding:
    rows = {**{f"P-Tuning V2, m = {m}": row for m, row in P_TUNING.items()}, **OTHERS, **settings.printed}
    gaps = {name: beyond_rounding(row) for name, row in rows.items()}
    return Finding(
        conclusions=tuple(
            Conclusion(f"{name}: distance beyond rounding", "<=", 1e-9, gap) for name, gap in gaps.items()
        ),
        numbers={f"average of the accuracies, {name}": sum(row[:-1]) / 5 for name, row in rows.items()},
        remark="LoRA's five accuracies have the average 81.22; 81.24 is printed. Nothing rests on it.",
    )


@claim(
    "P1/table-1-lengths",
    place="Section 5, the sentence on Table 1",
    title="P-Tuning V2 improves with its length",
    kind="experiment",
    quote="""Interestingly, as m increases, the performance of P-Tuning V2 also improves, which is
        consistent with our analysis.""",
    statement="""In Table 1 the average of P-Tuning V2 rises with the length m of its prefix: over the
        lengths 1, 10, 100 that Section 5 names, and over the table's 1, 10, 100, 200.""",
    rests_on=("P1/proposition-3.3",),
    quick={"last": list(P_TUNING[200])},
    seeds=1,
    seconds=0.1,
)
def lengths(settings: Settings, seed: int) -> Finding:
    averages = {**{m: row[-1] for m, row in P_TUNING.items()}, 200: settings.last[-1]}
    fallen = sum(now < before for now, before in zip(settings.last[:-1], P_TUNING[100], strict=False))
    return Finding(
        conclusions=(
            Conclusion(
                "least rise of the average over m = 1, 10, 100",
                ">=",
                0.0,
                min(averages[10] - averages[1], averages[100] - averages[10]),
                part="lengths that the text names",
            ),
            Conclusion(
                "rise of the average from m = 100 to m = 200",
                ">=",
                0.0,
                averages[200] - averages[100],
                part="lengths of the table",
            ),
        ),
        numbers={"tasks of five that fall from m = 100 to m = 200": fallen},
        figures=(
            Figure(
                "Average accuracy of P-Tuning V2, as printed",
                "length of the prefix",
                "average accuracy",
                (Series.of("Table 1", list(averages), list(averages.values())),),
                log_x=True,
            ),
        ),
        remark="The section names the lengths 1, 10 and 100, for which the sentence is right; the table "
        "has 200 as well, where all five tasks fall.",
    )
