"""Tests the papers' statements on the user's machine: `measure` measures profiles in several MPI jobs (launches), and
`answers` decides for each statement whether it holds on this machine, does not hold, or cannot be decided. These
answers do not affect the verdict on the paper."""
