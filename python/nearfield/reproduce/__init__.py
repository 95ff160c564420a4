"""Judges the claims of papers (data in papers/) by simulation: simulates the cases that a claim needs, compares the
records with the paper, and gives a verdict, with the same tolerance for all claims."""
