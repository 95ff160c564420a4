// Wrappers of all forms of MPI_Wait and MPI_Test, and of MPI_Request_get_status. In a live simulation, the simulator
// decides which requests have completed.
#include "preload/observe/mpi/completion.hpp"

#include <numeric>

#include "preload/observe/mpi/live_session.hpp"

using namespace nearfield::observe;
using stream::Question;

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

struct CompletionForm {
  Question mode;  // one, some or all
  bool blocking;
  bool keeps_handle = false;
};

// Returns the indices of the requests that complete in this call. Queries the simulator, unless the program waits for
// all requests.
RequestIndices query_completed_indices(const Completion& completion, const CompletionForm& form) {
  const auto& numbers = completion.request_numbers();
  RequestIndices done;
  if (form.mode == Question::all && (form.blocking || numbers.empty())) {
    record_wait_started(form.blocking ? numbers : std::vector<stream::Number>());
    return first_indices(completion.request_count());
  }
  for (const std::int64_t place : live_session().query_simulator({form.mode, numbers, form.blocking, 0, 0, 0}))
    done.push_back(completion.index_of(place));
  return form.mode == Question::all && !done.empty() ? first_indices(completion.request_count()) : done;
}

// Runs one call of the MPI_Wait or MPI_Test family. Outside of a live simulation, `call_library(statuses, done)` calls
// the MPI library's function and adds the indices of completed requests to `done`. In a live simulation, the simulator
// decides, and `report(done)` writes the indices to the program's output arguments. Returns MPI's error code.
template <class CallLibrary, class Report>
int complete_requests(const Call& call, const CompletionForm& form, int count, MPI_Request handles[],
                      MPI_Status* statuses, CallLibrary call_library, Report report) {
  Completion completion(handles, count);
  const bool waits_for_all = form.mode == Question::all && form.blocking;
  const bool is_known =
      !completion.request_numbers().empty() || (form.mode == Question::all && completion.has_completed_message());
  if (is_live() && (is_known || waits_for_all)) {
    const RequestIndices done = query_completed_indices(completion, form);
    report(done);
    for (std::size_t i = 0; i < done.size(); ++i) {
      MPI_Status status;
      const int result = completion.complete_in_library(done[i], &status, form.keeps_handle);
      if (!call.succeeded(result)) return result;
      completion.record_completion_of(done[i], &status);
      if (statuses != MPI_STATUSES_IGNORE) statuses[i] = status;
    }
  } else {
    RequestIndices done;
    MPI_Status* const used = completion.statuses_to_write(statuses);
    const int result = call_library(used, done);
    if (!call.succeeded(result)) return result;
    for (std::size_t i = 0; i < done.size(); ++i) completion.record_completion_of(done[i], used + i);
  }
  if (waits_for_all)
    completion.record_completed();
  else
    completion.record_test(form.blocking);
  return MPI_SUCCESS;
}

}  // namespace

int Completion::complete_in_library(int index, MPI_Status* status, bool keeps_handle) {
  const auto at = static_cast<std::size_t>(index);
  Request& request = *at_[at];
  if (!request.held && !keeps_handle) return live_session().wait_for_request(now_ + at, status);
  if (!request.held) {
    int flag = 0, result = MPI_SUCCESS;
    live_session().poll_until(
        [&] { return result = PMPI(MPI_Request_get_status)(now_[at], &flag, status), flag || result; });
    return result;
  }
  const int result = live_session().complete_message(*request.held, status);
  if (keeps_handle || result != MPI_SUCCESS) return result;
  request.held.reset();
  if (request.is_persistent()) return result;
  live_session().release_placeholder(now_[at]);
  now_[at] = MPI_REQUEST_NULL;
  return result;
}

WRAPPED(MPI_Wait, (MPI_Request * request, MPI_Status* status), (request, status)) {
  const auto wait = [&](MPI_Status* used, RequestIndices& done) {
    done = {0};
    return PMPI(MPI_Wait)(request, as_single_status(used));
  };
  return complete_requests(call, {Question::all, true}, 1, request, as_status_array(status), wait,
                           [](const RequestIndices&) {});
}

WRAPPED(MPI_Waitall, (int count, MPI_Request handles[], MPI_Status* statuses), (count, handles, statuses)) {
  const auto wait = [&](MPI_Status* used, RequestIndices& done) {
    done = first_indices(count);
    return PMPI(MPI_Waitall)(count, handles, used);
  };
  return complete_requests(call, {Question::all, true}, count, handles, statuses, wait, [](const RequestIndices&) {});
}

// Defines the body of MPI_Test, MPI_Testall and MPI_Request_get_status. `library_call` is the expression that calls the
// MPI library's function, which sets `*flag` and writes to the statuses `used`.
#define TESTS_ALL(count, handles, statuses, keeps_handle, library_call)                                \
  const auto test = [&](MPI_Status* used, RequestIndices& done) {                                      \
    const int result = library_call;                                                                   \
    if (*flag) done = first_indices(count);                                                            \
    return result;                                                                                     \
  };                                                                                                   \
  return complete_requests(call, {Question::all, false, keeps_handle}, count, handles, statuses, test, \
                           [&](const RequestIndices& done) { *flag = !done.empty(); });

WRAPPED(MPI_Test, (MPI_Request * request, int* flag, MPI_Status* status), (request, flag, status)){
    TESTS_ALL(1, request, as_status_array(status), false, PMPI(MPI_Test)(request, flag, as_single_status(used)))}

WRAPPED(MPI_Testall, (int count, MPI_Request handles[], int* flag, MPI_Status* statuses),
        (count, handles, flag, statuses)){
    TESTS_ALL(count, handles, statuses, false, PMPI(MPI_Testall)(count, handles, flag, used))}

// MPI_Request_get_status leaves the handle valid; a later wait for the request does not record the completion again.
WRAPPED(MPI_Request_get_status, (MPI_Request request, int* flag, MPI_Status* status),
        (request, flag, status)){TESTS_ALL(1, &request, as_status_array(status), true,
                                           PMPI(MPI_Request_get_status)(request, flag, as_single_status(used)))}

WRAPPED(MPI_Waitany, (int count, MPI_Request handles[], int* index, MPI_Status* status),
        (count, handles, index, status)) {
  const auto wait = [&](MPI_Status* used, RequestIndices& done) {
    const int result = PMPI(MPI_Waitany)(count, handles, index, as_single_status(used));
    if (*index != MPI_UNDEFINED) done = {*index};
    return result;
  };
  return complete_requests(call, {Question::one, true}, count, handles, as_status_array(status), wait,
                           [&](const RequestIndices& done) { *index = done.empty() ? MPI_UNDEFINED : done[0]; });
}

WRAPPED(MPI_Testany, (int count, MPI_Request handles[], int* index, int* flag, MPI_Status* status),
        (count, handles, index, flag, status)) {
  const auto test = [&](MPI_Status* used, RequestIndices& done) {
    const int result = PMPI(MPI_Testany)(count, handles, index, flag, as_single_status(used));
    if (*flag && *index != MPI_UNDEFINED) done = {*index};
    return result;
  };
  return complete_requests(call, {Question::one, false}, count, handles, as_status_array(status), test,
                           [&](const RequestIndices& done) {
                             *flag = !done.empty();
                             *index = done.empty() ? MPI_UNDEFINED : done[0];
                           });
}

#define SOME(name, blocking)                                                                      \
  WRAPPED(name, (int count, MPI_Request handles[], int* n, int indices[], MPI_Status* statuses),  \
          (count, handles, n, indices, statuses)) {                                               \
    const auto library = [&](MPI_Status* used, RequestIndices& done) {                            \
      const int result = PMPI(name)(count, handles, n, indices, used);                            \
      if (result == MPI_SUCCESS && *n != MPI_UNDEFINED) done.assign(indices, indices + *n);       \
      return result;                                                                              \
    };                                                                                            \
    return complete_requests(call, {Question::some, blocking}, count, handles, statuses, library, \
                             [&](const RequestIndices& done) {                                    \
                               *n = static_cast<int>(done.size());                                \
                               std::copy(done.begin(), done.end(), indices);                      \
                             });                                                                  \
  }

SOME(MPI_Waitsome, true)
SOME(MPI_Testsome, false)
