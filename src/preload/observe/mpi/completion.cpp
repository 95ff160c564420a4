// Wrappers of all forms of MPI_Wait and MPI_Test, and of MPI_Request_get_status. In a live simulation, the simulator
// decides which requests have completed.
#include "preload/observe/mpi/completion.hpp"

#include <numeric>

#include "preload/observe/mpi/live_session.hpp"

using namespace nearfield::observe;
using stream::QueryKind;

namespace {

using RequestIndices = std::vector<int>;

RequestIndices first_indices(int count) {
  RequestIndices all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// Conversions between MPI_STATUS_IGNORE and MPI_STATUSES_IGNORE, which differ in some MPIs.
MPI_Status* as_status_array(MPI_Status* status) { return status == MPI_STATUS_IGNORE ? MPI_STATUSES_IGNORE : status; }
MPI_Status* as_single_status(MPI_Status* statuses) {
  return statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : statuses;
}

struct CompletionMode {
  QueryKind completion_kind;  // one, some or all
  bool is_blocking;
  bool keeps_handle = false;
};

// Returns the indices of the requests that complete in this call. Queries the simulator, unless the program waits for
// all requests.
RequestIndices query_completed_indices(const RequestCompletion& completion, const CompletionMode& form) {
  const auto& numbers = completion.request_numbers();
  RequestIndices done;
  if (form.completion_kind == QueryKind::all_requests && (form.is_blocking || numbers.empty())) {
    record_wait_started(form.is_blocking ? numbers : std::vector<stream::Number>());
    return first_indices(completion.num_requests());
  }
  for (const std::int64_t position :
       live_session().query_simulator({form.completion_kind, numbers, form.is_blocking, 0, 0, 0}))
    done.push_back(completion.index_of(position));
  return form.completion_kind == QueryKind::all_requests && !done.empty() ? first_indices(completion.num_requests())
                                                                          : done;
}

// Runs one call of the MPI_Wait or MPI_Test family. Outside of a live simulation, `call_library(statuses, done)`
// calls the MPI library's function and adds the indices of completed requests to `done`. In a live simulation, the
// simulator decides, and `report(done)` writes the indices to the program's output arguments. Returns MPI's error code.
template <class CallLibrary, class Report>
int complete_requests(const Call& call, const CompletionMode& form, int count, MPI_Request handles[],
                      MPI_Status* statuses, CallLibrary call_library, Report report) {
  RequestCompletion completion(handles, count);
  const bool waits_for_all = form.completion_kind == QueryKind::all_requests && form.is_blocking;
  const bool is_in_simulation = !completion.request_numbers().empty() ||
                                (form.completion_kind == QueryKind::all_requests && completion.has_completed_message());
  if (is_live() && (is_in_simulation || waits_for_all)) {
    const RequestIndices done = query_completed_indices(completion, form);
    report(done);
    for (std::size_t i = 0; i < done.size(); ++i) {
      MPI_Status status;
      const int result = completion.complete_request_in_library(done[i], &status, form.keeps_handle);
      if (!call.succeeded(result)) return result;
      completion.record_completion_of(done[i], &status);
      if (statuses != MPI_STATUSES_IGNORE) statuses[i] = status;
    }
  } else {
    RequestIndices done;
    MPI_Status* const library_statuses = completion.statuses_to_write(statuses);
    const int result = call_library(library_statuses, done);
    if (!call.succeeded(result)) return result;
    for (std::size_t i = 0; i < done.size(); ++i) completion.record_completion_of(done[i], library_statuses + i);
  }
  if (waits_for_all)
    completion.record_wait_completed();
  else
    completion.record_test(form.is_blocking);
  return MPI_SUCCESS;
}

}  // namespace

int RequestCompletion::complete_request_in_library(int index, MPI_Status* status, bool keeps_handle) {
  const auto at = static_cast<std::size_t>(index);
  Request& request = *entry_by_index_[at];
  if (!request.live_message && !keeps_handle) return live_session().wait_for_request(handles_ + at, status);
  if (!request.live_message) {
    int flag = 0, result = MPI_SUCCESS;
    live_session().poll_until(
        [&] { return result = PMPI(MPI_Request_get_status)(handles_[at], &flag, status), flag || result; });
    return result;
  }
  const int result = live_session().complete_message(*request.live_message, status);
  if (keeps_handle || result != MPI_SUCCESS) return result;
  request.live_message.reset();
  if (request.is_persistent()) return result;
  live_session().release_placeholder(handles_[at]);
  handles_[at] = MPI_REQUEST_NULL;
  return result;
}

DEFINE_WRAPPER(MPI_Wait, (MPI_Request * request, MPI_Status* status), (request, status)) {
  const auto wait = [&](MPI_Status* library_statuses, RequestIndices& done) {
    done = {0};
    return PMPI(MPI_Wait)(request, as_single_status(library_statuses));
  };
  return complete_requests(call, {QueryKind::all_requests, true}, 1, request, as_status_array(status), wait,
                           [](const RequestIndices&) {});
}

DEFINE_WRAPPER(MPI_Waitall, (int count, MPI_Request handles[], MPI_Status* statuses), (count, handles, statuses)) {
  const auto wait = [&](MPI_Status* library_statuses, RequestIndices& done) {
    done = first_indices(count);
    return PMPI(MPI_Waitall)(count, handles, library_statuses);
  };
  return complete_requests(call, {QueryKind::all_requests, true}, count, handles, statuses, wait,
                           [](const RequestIndices&) {});
}

// Defines the body of MPI_Test, MPI_Testall and MPI_Request_get_status. `library_call` is the expression that calls the
// MPI library's function, which sets `*flag` and writes to the statuses `library_statuses`.
#define RUN_TEST_OF_ALL(count, handles, statuses, keeps_handle, library_call)                                    \
  const auto test = [&](MPI_Status* library_statuses, RequestIndices& done) {                                    \
    const int result = library_call;                                                                             \
    if (*flag) done = first_indices(count);                                                                      \
    return result;                                                                                               \
  };                                                                                                             \
  return complete_requests(call, {QueryKind::all_requests, false, keeps_handle}, count, handles, statuses, test, \
                           [&](const RequestIndices& done) { *flag = !done.empty(); });

DEFINE_WRAPPER(MPI_Test, (MPI_Request * request, int* flag, MPI_Status* status), (request, flag, status)){
    RUN_TEST_OF_ALL(1, request, as_status_array(status), false,
                    PMPI(MPI_Test)(request, flag, as_single_status(library_statuses)))}

DEFINE_WRAPPER(MPI_Testall, (int count, MPI_Request handles[], int* flag, MPI_Status* statuses),
               (count, handles, flag, statuses)){
    RUN_TEST_OF_ALL(count, handles, statuses, false, PMPI(MPI_Testall)(count, handles, flag, library_statuses))}

// MPI_Request_get_status leaves the handle valid; a later wait for the request does not record the completion again.
DEFINE_WRAPPER(MPI_Request_get_status, (MPI_Request request, int* flag, MPI_Status* status), (request, flag, status)){
    RUN_TEST_OF_ALL(1, &request, as_status_array(status), true,
                    PMPI(MPI_Request_get_status)(request, flag, as_single_status(library_statuses)))}

DEFINE_WRAPPER(MPI_Waitany, (int count, MPI_Request handles[], int* index, MPI_Status* status),
               (count, handles, index, status)) {
  const auto wait = [&](MPI_Status* library_statuses, RequestIndices& done) {
    const int result = PMPI(MPI_Waitany)(count, handles, index, as_single_status(library_statuses));
    if (*index != MPI_UNDEFINED) done = {*index};
    return result;
  };
  return complete_requests(call, {QueryKind::any_request, true}, count, handles, as_status_array(status), wait,
                           [&](const RequestIndices& done) { *index = done.empty() ? MPI_UNDEFINED : done[0]; });
}

DEFINE_WRAPPER(MPI_Testany, (int count, MPI_Request handles[], int* index, int* flag, MPI_Status* status),
               (count, handles, index, flag, status)) {
  const auto test = [&](MPI_Status* library_statuses, RequestIndices& done) {
    const int result = PMPI(MPI_Testany)(count, handles, index, flag, as_single_status(library_statuses));
    if (*flag && *index != MPI_UNDEFINED) done = {*index};
    return result;
  };
  return complete_requests(call, {QueryKind::any_request, false}, count, handles, as_status_array(status), test,
                           [&](const RequestIndices& done) {
                             *flag = !done.empty();
                             *index = done.empty() ? MPI_UNDEFINED : done[0];
                           });
}

#define WRAP_SOME(name, blocking)                                                                           \
  DEFINE_WRAPPER(name, (int count, MPI_Request handles[], int* n, int indices[], MPI_Status* statuses),     \
                 (count, handles, n, indices, statuses)) {                                                  \
    const auto library = [&](MPI_Status* library_statuses, RequestIndices& done) {                          \
      const int result = PMPI(name)(count, handles, n, indices, library_statuses);                          \
      if (result == MPI_SUCCESS && *n != MPI_UNDEFINED) done.assign(indices, indices + *n);                 \
      return result;                                                                                        \
    };                                                                                                      \
    return complete_requests(call, {QueryKind::some_requests, blocking}, count, handles, statuses, library, \
                             [&](const RequestIndices& done) {                                              \
                               *n = static_cast<int>(done.size());                                          \
                               std::copy(done.begin(), done.end(), indices);                                \
                             });                                                                            \
  }

WRAP_SOME(MPI_Waitsome, true)
WRAP_SOME(MPI_Testsome, false)
