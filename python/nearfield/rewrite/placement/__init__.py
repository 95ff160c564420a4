"""Patches that give MPI calls another form or place, and leave all loops as they are.

`persistent` finds the loops whose messages may have persistent requests, `proof` proves the new text."""

NAMES = ("persistent",)
SUMMARIES = {"persistent": "sets messages up once in front of their loop, and only starts them in it"}
