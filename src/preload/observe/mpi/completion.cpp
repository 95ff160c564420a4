// All forms of Wait and Test, and MPI_Request_get_status.
#include "preload/observe/mpi/completion.hpp"

#include "preload/observe/mpi/live_completion.hpp"

using namespace nearfield::observe;

WRAPPED(MPI_Wait, (MPI_Request * request, MPI_Status* status), (request, status)) {
  if (is_live()) return live_wait(call, request, status);
  Completion completion(request, 1);
  MPI_Status* const used = completion.statuses(status, MPI_STATUS_IGNORE);
  const int result = PMPI(MPI_Wait)(request, used);
  if (!call.succeeded(result)) return result;
  completion.all_done(used);
  completion.record_completed();
  return result;
}

WRAPPED(MPI_Waitall, (int count, MPI_Request handles[], MPI_Status* statuses), (count, handles, statuses)) {
  if (is_live()) return live_waitall(call, count, handles, statuses);
  Completion completion(handles, count);
  MPI_Status* const used = completion.statuses(statuses, MPI_STATUSES_IGNORE);
  const int result = PMPI(MPI_Waitall)(count, handles, used);
  if (!call.succeeded(result)) return result;
  completion.all_done(used);
  completion.record_completed();
  return result;
}

WRAPPED(MPI_Waitany, (int count, MPI_Request handles[], int* index, MPI_Status* status),
        (count, handles, index, status)) {
  if (is_live()) return live_any(call, count, handles, index, nullptr, status);
  Completion completion(handles, count);
  MPI_Status* const used = completion.statuses(status, MPI_STATUS_IGNORE);
  const int result = PMPI(MPI_Waitany)(count, handles, index, used);
  if (!call.succeeded(result)) return result;
  if (*index != MPI_UNDEFINED) completion.done(*index, used);
  completion.record_test(true);
  return result;
}

WRAPPED(MPI_Test, (MPI_Request * request, int* flag, MPI_Status* status), (request, flag, status)) {
  if (is_live()) return live_test(call, request, flag, status);
  Completion completion(request, 1);
  MPI_Status* const used = completion.statuses(status, MPI_STATUS_IGNORE);
  const int result = PMPI(MPI_Test)(request, flag, used);
  if (!call.succeeded(result)) return result;
  if (*flag) completion.all_done(used);
  completion.record_test(false);
  return result;
}

WRAPPED(MPI_Testall, (int count, MPI_Request handles[], int* flag, MPI_Status* statuses),
        (count, handles, flag, statuses)) {
  if (is_live()) return live_testall(call, count, handles, flag, statuses);
  Completion completion(handles, count);
  MPI_Status* const used = completion.statuses(statuses, MPI_STATUSES_IGNORE);
  const int result = PMPI(MPI_Testall)(count, handles, flag, used);
  if (!call.succeeded(result)) return result;
  if (*flag) completion.all_done(used);
  completion.record_test(false);
  return result;
}

WRAPPED(MPI_Testany, (int count, MPI_Request handles[], int* index, int* flag, MPI_Status* status),
        (count, handles, index, flag, status)) {
  if (is_live()) return live_any(call, count, handles, index, flag, status);
  Completion completion(handles, count);
  MPI_Status* const used = completion.statuses(status, MPI_STATUS_IGNORE);
  const int result = PMPI(MPI_Testany)(count, handles, index, flag, used);
  if (!call.succeeded(result)) return result;
  if (*flag && *index != MPI_UNDEFINED) completion.done(*index, used);
  completion.record_test(false);
  return result;
}

#define SOME(name, waited)                                                                           \
  WRAPPED(name, (int count, MPI_Request handles[], int* done, int indices[], MPI_Status* statuses),  \
          (count, handles, done, indices, statuses)) {                                               \
    if (is_live()) return live_some(call, waited, count, handles, done, indices, statuses);          \
    Completion completion(handles, count);                                                           \
    MPI_Status* const used = completion.statuses(statuses, MPI_STATUSES_IGNORE);                     \
    const int result = PMPI(name)(count, handles, done, indices, used);                              \
    if (!call.succeeded(result)) return result;                                                      \
    for (int i = 0; *done != MPI_UNDEFINED && i < *done; ++i) completion.done(indices[i], used + i); \
    completion.record_test(waited);                                                                  \
    return result;                                                                                   \
  }

SOME(MPI_Waitsome, true)
SOME(MPI_Testsome, false)

// The handle remains valid; a later wait for it does not record the completion again.
WRAPPED(MPI_Request_get_status, (MPI_Request request, int* flag, MPI_Status* status), (request, flag, status)) {
  if (is_live()) return live_status(call, request, flag, status);
  Completion completion(&request, 1);
  MPI_Status* const used = completion.statuses(status, MPI_STATUS_IGNORE);
  const int result = PMPI(MPI_Request_get_status)(request, flag, used);
  if (!call.succeeded(result)) return result;
  if (*flag) completion.all_done(used);
  completion.record_test(false);
  return result;
}
