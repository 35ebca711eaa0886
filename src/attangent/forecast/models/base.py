"""The interface of a forecaster of panels."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from attangent.forecast.data.panel import Array, Panel


class PanelModel(ABC):
    """A forecaster: from a panel of series to their next values.

    A model may return several *members* at once, one per setting. A member belongs to the family that its
    name starts with, up to the first dash: "ridge-2-log" is a member of "ridge". A family is what a user can
    name as `model`, and the members of all families with a positive prior weight are combined.

    Attributes:
        families: Names of the families that the model returns members of.
        long_only: Whether the model needs one or a few long series; it is skipped for other panels unless
            the user names it.
        zeros_only: Whether the model is for series with many zeros; it is skipped for panels without any
            unless the user names it.
    """

    families: ClassVar[tuple[str, ...]]
    long_only: ClassVar[bool] = False
    zeros_only: ClassVar[bool] = False

    @abstractmethod
    def forecast(self, panel: Panel, horizon: int, earlier: Mapping[str, Array]) -> dict[str, Array]:
        """Forecast every series of a panel.

        Args:
            panel: Series, the longest first.
            horizon: Number of steps ahead.
            earlier: Forecasts of the models that come before this one in the registry; a model falls back on
                them for series that are too short for it.

        Returns:
            Finite forecasts (N, horizon) by the name of the member.
        """
