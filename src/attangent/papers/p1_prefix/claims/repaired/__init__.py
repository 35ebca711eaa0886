"""Statements of ours that put right what fails in P1; their derivations are in docs/repairs-p1.md."""
