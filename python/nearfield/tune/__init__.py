"""Finds rules: searches the settings of an MPI by paired measurements, and confirms the settings that gain."""
