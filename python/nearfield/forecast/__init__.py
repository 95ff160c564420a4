"""Forecasts the speed-up of a program by nearfield: runs it under a thin profiling layer that counts its MPI calls, and
computes the time that they could save from measured message times."""
