// Wait and Test where a simulation decides which requests are done (asking.hpp). Each returns what the MPI function does.
// Where no request is known to the wrappers there is nothing to ask, and the MPI library answers.
#pragma once

#include <mpi.h>

#include "observe/mpi/call.hpp"

namespace nearfield::observe {

int asked_wait(const Call& call, MPI_Request* request, MPI_Status* status);
int asked_waitall(const Call& call, int count, MPI_Request handles[], MPI_Status* statuses);
int asked_test(const Call& call, MPI_Request* request, int* flag, MPI_Status* status);
int asked_testall(const Call& call, int count, MPI_Request handles[], int* flag, MPI_Status* statuses);
// Waitany, and with a flag Testany.
int asked_any(const Call& call, int count, MPI_Request handles[], int* index, int* flag, MPI_Status* status);
int asked_some(const Call& call, bool waited, int count, MPI_Request handles[], int* done, int indices[],
               MPI_Status* statuses);
int asked_status(const Call& call, MPI_Request request, int* flag, MPI_Status* status);

}  // namespace nearfield::observe
