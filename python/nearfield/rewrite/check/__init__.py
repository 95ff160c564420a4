"""Checks what codegen wrote: a proof of the emitted text, and runs of the original and the rewritten program."""
