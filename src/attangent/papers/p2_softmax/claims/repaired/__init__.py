"""Statements of ours that put right what fails in P2; their derivations are in docs/repairs-p2.md."""
