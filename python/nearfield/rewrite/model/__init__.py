"""Decides which orders of a region are legal, by a polyhedral model of its instances and dependences."""
