"""Judges the papers' claims (data in papers/) by simulation: the cases that a claim needs, the agreement of the records
with the paper, and a verdict with one tolerance for all claims."""
