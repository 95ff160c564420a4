"""Validates a described machine: compares simulated times with times measured on the real machine. `cases` simulates
the measured cases, `trust` checks whether the measurements are reliable enough for a comparison, `scores` computes
deviations, and `page` draws measured and simulated curves in the same plots."""
