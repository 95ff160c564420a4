"""Judges the papers' claims, data in papers/, by simulation: what to simulate for a claim, whether the records agree
with the paper, and a verdict by one tolerance for all claims."""
