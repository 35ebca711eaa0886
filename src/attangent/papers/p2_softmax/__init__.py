"""P2: the tangent kernel of softmax networks, and diffusion models that learn scores with it."""
