"""Attention with a prefix in torch: plain operations, around a fused token attention, and for decoding."""
