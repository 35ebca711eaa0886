"""The models of P5's theory."""
