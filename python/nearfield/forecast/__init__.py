"""Forecasts a program's gain: runs it under a thin layer that counts its MPI calls, and prices what they could save."""
