"""P2: the tangent kernel of two-layer softmax networks."""
