"""The elu map folded: u = phi Z / phi k and l = log(phi k) with phi = elu(factor q) + 1."""

import torch
import torch.nn.functional as F
from torch import Tensor

from attangent.attention.backends.decode.alone import Alone
from attangent.attention.backends.decode.native import merge_elu
from attangent.attention.prefix import by_state_head


def fold_elu(Z: Tensor, masses: Tensor, gain: float, heads: int) -> Alone | None:
    """Z (Hs, d, dv) and masses (Hs, d), none below 0; None where a head has no mass."""
    if bool((masses == 0).all(dim=1).any()):
        return None
    factor, column = gain * Z.shape[1] ** -0.25, masses.unsqueeze(-1)
    least = torch.finfo(Z.dtype).tiny

    def attend(x: Tensor) -> tuple[Tensor, Tensor]:
        phi = F.elu(by_state_head(x, len(Z)) * factor) + 1
        mass = phi @ column
        u = phi @ Z / mass.clamp(min=least)
        return u.reshape(*x.shape[:3], -1), mass.log().reshape(*x.shape[:3], 1)

    return Alone(attend, merge_elu(Z, masses, factor, heads))
