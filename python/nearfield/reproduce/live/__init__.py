"""Checks the papers' statements on the reader's own machine: measures live profiles (`measure`), and answers whether a
statement holds on this machine, does not, or cannot be decided (`answers`). It does not affect a paper's verdict."""
