// Wait and Test in a live simulation, which decides which requests have completed (live_client.hpp). Each returns what
// the MPI function does. If no request is known to the wrappers, the MPI library's function is called.
#pragma once

#include <mpi.h>

#include "preload/observe/mpi/call.hpp"

namespace nearfield::observe {

int live_wait(const Call& call, MPI_Request* request, MPI_Status* status);
int live_waitall(const Call& call, int count, MPI_Request handles[], MPI_Status* statuses);
int live_test(const Call& call, MPI_Request* request, int* flag, MPI_Status* status);
int live_testall(const Call& call, int count, MPI_Request handles[], int* flag, MPI_Status* statuses);
// Waitany; with `flag`, Testany.
int live_any(const Call& call, int count, MPI_Request handles[], int* index, int* flag, MPI_Status* status);
int live_some(const Call& call, bool waited, int count, MPI_Request handles[], int* done, int indices[],
              MPI_Status* statuses);
int live_status(const Call& call, MPI_Request request, int* flag, MPI_Status* status);

}  // namespace nearfield::observe
