"""NTK-Attention around a fused token attention: forward, backward, what both share."""
