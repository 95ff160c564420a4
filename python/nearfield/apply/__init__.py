"""Applies rules to unmodified programs, exports them, and explains what they did."""
