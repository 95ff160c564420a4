"""Judges the claims of published papers (papers/NAME/claims.toml) by simulation: simulates the benchmark cases that a
claim needs, compares the resulting records with the paper, and derives a verdict. All claims are judged with the same
tolerances."""
