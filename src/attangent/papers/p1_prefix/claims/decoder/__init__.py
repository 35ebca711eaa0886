"""Table 1 of P1 on a decoder: its last layers as a classifier, and the comparison."""
