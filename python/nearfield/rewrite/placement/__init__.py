"""Patches that give MPI calls another form or place, and leave all loops as they are.

`persistent` finds the loops whose messages may have persistent requests, `proof` proves the new text."""

NAMES = ("persistent",)
SUMMARIES = {"persistent": "sets the messages of a loop up once, and then only starts them"}
