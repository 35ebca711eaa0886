"""Parameters of a constructor, read and set as scikit-learn's `clone` and searches expect."""

from inspect import signature
from typing import Any, Self

from attangent._core.checks import check_names


class Parameters:
    """Base of a class that stores the parameters of its constructor under their names."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters of the constructor by name, as scikit-learn's estimators do.

        Args:
            deep: Accepted for scikit-learn; there are no nested estimators.
        """
        return {name: getattr(self, name) for name in signature(type(self)).parameters}

    def set_params(self, **params: Any) -> Self:
        """Set parameters of the constructor.

        Args:
            **params: New values by name.

        Returns:
            The forecaster.

        Raises:
            AttangentError: If a name is unknown or a value is out of range.
        """
        known = self.get_params()
        check_names(params, known, type(self).__name__)
        self.__init__(**(known | params))
        return self
