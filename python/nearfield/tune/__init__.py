"""Finds rules: searches the settings of an MPI by paired measurements, and confirms what gains."""
