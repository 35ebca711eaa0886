"""Claims of P1: NTK-Attention and the kernel theory of long prefixes."""
