"""Reads source text: C and C++ by libclang, compiler arguments, and where the functions of a program are."""
