"""The tangent kernel of any torch module, and what it says about training.

K = J J' with J the gradient of every output with respect to every parameter. Two inputs with a large entry
learn together; the smallest eigenvalue says how slow the slowest direction is.
"""

import torch
from torch import nn

from attangent import tangent_kernel

torch.manual_seed(0)
module = nn.Sequential(nn.Linear(3, 256), nn.Tanh(), nn.Linear(256, 1)).double()
x = torch.randn(20, 3, dtype=torch.float64)
kernel = tangent_kernel(module, x)
values = torch.linalg.eigvalsh(kernel)
print("kernel:", tuple(kernel.shape), "symmetric:", bool(torch.allclose(kernel, kernel.T)))
print(f"eigenvalues from {values[0]:.2e} to {values[-1]:.2e}: the slowest direction learns", end=" ")
print(f"{values[-1] / values[0]:.0f} times slower than the fastest")
