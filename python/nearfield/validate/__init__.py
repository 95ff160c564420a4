"""Validates a described machine: compares simulated times with times measured on the real machine. `cases` simulates
the measured cases, `trust` says whether the measurements are fit for a comparison, `scores` computes deviations, and
`page` draws measured and simulated curves in the same plots."""
