"""What there is to gain in a program's run: where its time goes in MPI, and the most that rules, collectives or the halo
library can make of it."""
