"""Two ranks exchange an array by messages and read it by one-sided calls; each prints whether all was right, and
whether the array lies in the shared heap."""

import numpy
from mpi4py import MPI

HEAP = range(0x20 << 40, 0x21 << 40)

world = MPI.COMM_WORLD
other = 1 - world.rank
sent = numpy.arange(100_000.0) + world.rank
got = numpy.empty_like(sent)
right = True
for number in range(20):
    sent += 1
    world.Sendrecv(sent, other, recvbuf=got, source=other)
    right = right and bool((got == numpy.arange(100_000.0) + other + number + 1).all())
window = MPI.Win.Create(sent, comm=world)
window.Fence()
window.Get(got, other)
window.Fence()
right = right and bool((got == numpy.arange(100_000.0) + other + 20).all())
window.Free()
print(f"{world.rank} {right} {sent.ctypes.data in HEAP}\n", end="", flush=True)
