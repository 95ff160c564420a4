"""The papers' statements on the reader's own machine: measures what live profiles can tell (`measure`), and answers
whether a statement holds here, does not, or cannot be told (`answers`). No answer changes a paper's verdict."""
