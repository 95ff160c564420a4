"""Compares what a described machine's simulation predicts with what was measured there: `cases` simulates the measured
cases, `trust` says whether the measurements carry a comparison, `scores` sums up, and `page` draws the curves over one
another."""
