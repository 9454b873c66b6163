"""The cells of the matrix: what they are, how they are spelled, which are chosen and which archs each gets."""
