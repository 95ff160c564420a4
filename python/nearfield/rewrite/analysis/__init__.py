"""Finds regions: what their loops and messages access, and what may overlap."""
