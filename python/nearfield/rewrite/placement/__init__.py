"""Patches that replace or move MPI calls, and leave all loops unchanged.

`persistent` finds the loops whose messages may have persistent requests, `proof` proves the rewritten text."""

PLACEMENT_NAMES = ("persistent",)
SUMMARY_BY_NAME = {"persistent": "sets the messages of a loop up once, and then only starts them"}
