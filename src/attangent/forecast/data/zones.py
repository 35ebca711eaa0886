"""Time zones of times written with an offset."""

from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pandas as pd

_OFFSET = r"\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?\s*(Z|[+-]\d{2}:?\d{2})$"
_ZONES = (
    "Europe/Berlin", "Europe/London", "Europe/Athens", "America/New_York", "America/Chicago",
    "America/Denver", "America/Los_Angeles", "America/Halifax", "America/Santiago", "Australia/Sydney",
    "Australia/Adelaide", "Pacific/Auckland", "Asia/Jerusalem", "Asia/Beirut",
)  # fmt: skip
"""Zones that put the clock on and back, one for each set of rules."""


def in_zone(utc: pd.DatetimeIndex, text: pd.Series) -> pd.DatetimeIndex:
    """Times in the zone that their text shows; as they are where it shows none.

    One offset is a zone. Several are those of a zone with daylight saving, the first that has every one of
    them at its time; where there is none, or some times have no offset, UTC.
    """
    shown = text.str.extract(_OFFSET, expand=False)
    if shown.isna().all():
        return utc
    aware = utc.tz_localize("UTC")
    if shown.isna().any():
        return aware
    offsets = pd.to_timedelta(shown.map({one: _minutes(one) for one in shown.unique()}), unit="min")
    if offsets.nunique() == 1:
        first = offsets.iloc[0]
        return aware if first == pd.Timedelta(0) else aware.tz_convert(_fixed(first))
    for name in _ZONES:
        try:
            local = aware.tz_convert(ZoneInfo(name))
        except ZoneInfoNotFoundError:
            continue
        apart = local.tz_localize(None) - utc
        if np.array_equal(apart.to_numpy(), offsets.to_numpy().astype(apart.to_numpy().dtype)):
            return local
    return aware


def _fixed(offset: pd.Timedelta) -> str:
    minutes = int(offset.total_seconds() // 60)
    sign = "+" if minutes >= 0 else "-"
    return f"UTC{sign}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}"


def _minutes(offset: str) -> int:
    if offset == "Z":
        return 0
    digits = offset[1:].replace(":", "")
    return (1 if offset[0] == "+" else -1) * (60 * int(digits[:2]) + int(digits[2:]))
