"""Applies rules to unmodified programs, exports rules in other formats, and explains their effect."""
