"""The base of every part of nearfield: files that people may edit, and words for the mistakes in them."""
