"""Checks the papers' statements on the user's machine: measures live profiles (`measure`), and answers whether a
statement holds on this machine, does not, or cannot be decided (`answers`). The answers do not affect a paper's
verdict."""
