"""The training curve of a wide softmax network, known before it is trained.

The tangent kernel at the start says how each direction of the error will shrink. The wider the network, the
better that is true.
"""

import torch

from attangent import predict_training
from attangent.kernels import SoftmaxNetwork, unit_data

X, Y = unit_data(n=8, d_in=4, d_out=4, seed=0)  # your data: rows of X at most of length 1
for m in (64, 1024, 4096):
    network = SoftmaxNetwork(d_in=4, d_out=4, m=m, sigma=0.5, seed=0)
    kernel = network.kernel(X)  # closed form, (32, 32)
    rate = 0.5 / (m * torch.linalg.eigvalsh(kernel)[-1].item())
    prediction = predict_training(kernel, network.forward(X) - Y, rate, width=m)
    predicted = prediction.loss([0, 50, 100])
    trained = network.descend(X, Y, rate, steps=100).loss
    gap = abs(predicted[-1] / trained[-1] - 1)
    print(f"width {m}: loss after 100 steps {trained[-1]:.4f}, predicted {predicted[-1]:.4f} ({gap:.2%} off)")
print("largest rate that does not diverge:", float(prediction.largest_stable_rate))
