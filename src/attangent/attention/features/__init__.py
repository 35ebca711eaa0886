"""Feature maps phi of NTK-Attention: phi(q).phi(k) replaces exp(q.k/sqrt d)."""

from attangent.attention.features.activations import Elu, Learned, Printed
from attangent.attention.features.base import FeatureMap
from attangent.attention.features.calibrated import Calibrated
from attangent.attention.features.exponential import Anchors, Exponential, PositiveRandom
from attangent.attention.features.taylor import Taylor, order_for, taylor_error

BY_NAME: dict[str, type[FeatureMap]] = {
    kind.name: kind for kind in (Elu, Printed, Taylor, PositiveRandom, Anchors, Learned, Calibrated)
}
"""Every map by the name under which states are saved."""

__all__ = [
    "BY_NAME",
    "Anchors",
    "Calibrated",
    "Elu",
    "Exponential",
    "FeatureMap",
    "Learned",
    "PositiveRandom",
    "Printed",
    "Taylor",
    "order_for",
    "taylor_error",
]
