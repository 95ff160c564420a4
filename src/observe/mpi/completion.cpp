// Wait and Test in all forms, and MPI_Request_get_status.
#include "observe/mpi/completion.hpp"

#include "observe/mpi/asked_completion.hpp"

using namespace nearfield::observe;

WRAPPED(MPI_Wait, (MPI_Request * request, MPI_Status* status), (request, status)) {
  if (is_asking()) return asked_wait(call, request, status);
  Completion completion(request, 1);
  MPI_Status* const used = completion.statuses(status, MPI_STATUS_IGNORE);
  const int result = PMPI(MPI_Wait)(request, used);
  if (!call.succeeded(result)) return result;
  completion.all_done(used);
  completion.record_wait();
  return result;
}

WRAPPED(MPI_Waitall, (int count, MPI_Request handles[], MPI_Status* statuses), (count, handles, statuses)) {
  if (is_asking()) return asked_waitall(call, count, handles, statuses);
  Completion completion(handles, count);
  MPI_Status* const used = completion.statuses(statuses, MPI_STATUSES_IGNORE);
  const int result = PMPI(MPI_Waitall)(count, handles, used);
  if (!call.succeeded(result)) return result;
  completion.all_done(used);
  completion.record_wait();
  return result;
}

WRAPPED(MPI_Waitany, (int count, MPI_Request handles[], int* index, MPI_Status* status),
        (count, handles, index, status)) {
  if (is_asking()) return asked_any(call, count, handles, index, nullptr, status);
  Completion completion(handles, count);
  MPI_Status* const used = completion.statuses(status, MPI_STATUS_IGNORE);
  const int result = PMPI(MPI_Waitany)(count, handles, index, used);
  if (!call.succeeded(result)) return result;
  if (*index != MPI_UNDEFINED) completion.done(*index, used);
  completion.record_look(true);
  return result;
}

WRAPPED(MPI_Test, (MPI_Request * request, int* flag, MPI_Status* status), (request, flag, status)) {
  if (is_asking()) return asked_test(call, request, flag, status);
  Completion completion(request, 1);
  MPI_Status* const used = completion.statuses(status, MPI_STATUS_IGNORE);
  const int result = PMPI(MPI_Test)(request, flag, used);
  if (!call.succeeded(result)) return result;
  if (*flag) completion.all_done(used);
  completion.record_look(false);
  return result;
}

WRAPPED(MPI_Testall, (int count, MPI_Request handles[], int* flag, MPI_Status* statuses),
        (count, handles, flag, statuses)) {
  if (is_asking()) return asked_testall(call, count, handles, flag, statuses);
  Completion completion(handles, count);
  MPI_Status* const used = completion.statuses(statuses, MPI_STATUSES_IGNORE);
  const int result = PMPI(MPI_Testall)(count, handles, flag, used);
  if (!call.succeeded(result)) return result;
  if (*flag) completion.all_done(used);
  completion.record_look(false);
  return result;
}

WRAPPED(MPI_Testany, (int count, MPI_Request handles[], int* index, int* flag, MPI_Status* status),
        (count, handles, index, flag, status)) {
  if (is_asking()) return asked_any(call, count, handles, index, flag, status);
  Completion completion(handles, count);
  MPI_Status* const used = completion.statuses(status, MPI_STATUS_IGNORE);
  const int result = PMPI(MPI_Testany)(count, handles, index, flag, used);
  if (!call.succeeded(result)) return result;
  if (*flag && *index != MPI_UNDEFINED) completion.done(*index, used);
  completion.record_look(false);
  return result;
}

#define SOME(name, waited)                                                                           \
  WRAPPED(name, (int count, MPI_Request handles[], int* done, int indices[], MPI_Status* statuses),  \
          (count, handles, done, indices, statuses)) {                                               \
    if (is_asking()) return asked_some(call, waited, count, handles, done, indices, statuses);       \
    Completion completion(handles, count);                                                           \
    MPI_Status* const used = completion.statuses(statuses, MPI_STATUSES_IGNORE);                     \
    const int result = PMPI(name)(count, handles, done, indices, used);                              \
    if (!call.succeeded(result)) return result;                                                      \
    for (int i = 0; *done != MPI_UNDEFINED && i < *done; ++i) completion.done(indices[i], used + i); \
    completion.record_look(waited);                                                                  \
    return result;                                                                                   \
  }

SOME(MPI_Waitsome, true)
SOME(MPI_Testsome, false)

// The handle stays, and a later wait for it finds that the program knew.
WRAPPED(MPI_Request_get_status, (MPI_Request request, int* flag, MPI_Status* status), (request, flag, status)) {
  if (is_asking()) return asked_status(call, request, flag, status);
  Completion completion(&request, 1);
  MPI_Status* const used = completion.statuses(status, MPI_STATUS_IGNORE);
  const int result = PMPI(MPI_Request_get_status)(request, flag, used);
  if (!call.succeeded(result)) return result;
  if (*flag) completion.all_done(used);
  completion.record_look(false);
  return result;
}
