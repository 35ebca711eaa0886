"""The loss of a run, for several runs side by side, and what is said of rows that were kept apart."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class Objective:
    """Cross-entropy of logits Q z, with a weight for each class where given; squares for one number.

    basis: Q (C, C - 1), as `network.contrasts` gives it.
    """

    basis: Tensor
    values: bool = False
    weights: Tensor | None = None

    def logits(self, outputs: Tensor) -> Tensor:
        return outputs @ self.basis.T

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The mean loss (R) of each run's outputs (R, n, O) at the same n rows."""
        if self.values:
            return (outputs[..., 0] - targets.to(outputs)).square().mean(dim=1)
        each = -F.log_softmax(self.logits(outputs), dim=-1)
        own = each.gather(2, targets.expand(len(outputs), -1).unsqueeze(2)).squeeze(2)
        if self.weights is None:
            return own.mean(dim=1)
        weights = self.weights.to(own)[targets]
        return (own * weights).sum(dim=1) / weights.sum()

    def slopes(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """The losses (R) and their derivatives in the outputs (R, n, O)."""
        given = outputs.detach().requires_grad_()
        with torch.enable_grad():
            losses = self.losses(given, targets)
            (slopes,) = torch.autograd.grad(losses.sum(), given)
        return losses.detach(), slopes

    def scores(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The share of rows that each run gets right (R); R^2 where there are values."""
        if self.values:
            spread = targets.double().var(correction=0).to(outputs)
            return 1 - self.losses(outputs, targets) / spread
        return (self.logits(outputs).argmax(-1) == targets).float().mean(dim=1)
