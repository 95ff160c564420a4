#include "preload/observe/mpi/live_completion.hpp"

#include "preload/observe/mpi/completion.hpp"
#include "preload/observe/mpi/deferred_requests.hpp"
#include "preload/observe/mpi/live_client.hpp"

namespace nearfield::observe {
namespace {

using stream::Question;

// Queries the simulator. Returns the indices of the completed requests.
std::vector<int> query_completion(const Completion& completion, Question question, bool waited) {
  std::vector<int> done;
  for (const std::int64_t place : query({question, completion.numbers(), waited, 0, 0, 0}))
    done.push_back(completion.index_of(place));
  return done;
}

// Completes request `index` for the program. `to`: where it wants the status, or null.
int report_done(Completion& completion, int index, MPI_Status* to, bool keep = false) {
  MPI_Status status;
  const int result = completion.complete(index, &status, keep);
  if (result != MPI_SUCCESS) return result;
  completion.done(index, &status);
  if (to) *to = status;
  return result;
}

MPI_Status* wanted(MPI_Status* status) { return status == MPI_STATUS_IGNORE ? nullptr : status; }
MPI_Status* wanted_of(MPI_Status* statuses, int index) {
  return statuses == MPI_STATUSES_IGNORE ? nullptr : statuses + index;
}

int report_all_done(const Call& call, Completion& completion, MPI_Status* statuses) {
  for (int i = 0; i < completion.count(); ++i) {
    const int result = report_done(completion, i, wanted_of(statuses, i));
    if (!call.succeeded(result)) return result;
  }
  return MPI_SUCCESS;
}

}  // namespace

int Completion::complete(int index, MPI_Status* status, bool keep) {
  const auto at = static_cast<std::size_t>(index);
  Request& request = *at_[at];
  if (!request.held && !keep) return wait_request(now_ + at, status);
  if (!request.held) {
    int flag = 0, result = MPI_SUCCESS;
    progress_until([&] { return result = PMPI(MPI_Request_get_status)(now_[at], &flag, status), flag || result; });
    return result;
  }
  const int result = complete_request(*request.held, status);
  if (keep || result != MPI_SUCCESS) return result;
  request.held.reset();
  if (request.is_persistent()) return result;
  release_placeholder(now_[at]);
  now_[at] = MPI_REQUEST_NULL;
  return result;
}

int live_waitall(const Call& call, int count, MPI_Request handles[], MPI_Status* statuses) {
  Completion completion(handles, count);
  record_wait_started(completion.numbers());
  const int result = report_all_done(call, completion, statuses);
  completion.record_completed();
  return result;
}

int live_wait(const Call& call, MPI_Request* request, MPI_Status* status) {
  return live_waitall(call, 1, request, status == MPI_STATUS_IGNORE ? MPI_STATUSES_IGNORE : status);
}

int live_testall(const Call& call, int count, MPI_Request handles[], int* flag, MPI_Status* statuses) {
  Completion completion(handles, count);
  const bool known = completion.numbers().empty();  // completed already, or not known to the wrappers
  if (known && !completion.held()) return PMPI(MPI_Testall)(count, handles, flag, statuses);
  *flag = known || !query_completion(completion, Question::all, false).empty();
  const int result = *flag ? report_all_done(call, completion, statuses) : MPI_SUCCESS;
  completion.record_test(false);
  return result;
}

int live_test(const Call& call, MPI_Request* request, int* flag, MPI_Status* status) {
  return live_testall(call, 1, request, flag, status == MPI_STATUS_IGNORE ? MPI_STATUSES_IGNORE : status);
}

int live_any(const Call& call, int count, MPI_Request handles[], int* index, int* flag, MPI_Status* status) {
  Completion completion(handles, count);
  if (completion.numbers().empty())
    return flag ? PMPI(MPI_Testany)(count, handles, index, flag, status)
                : PMPI(MPI_Waitany)(count, handles, index, status);
  const auto done = query_completion(completion, Question::one, !flag);
  *index = done.empty() ? MPI_UNDEFINED : done[0];
  if (flag) *flag = !done.empty();
  const int result = done.empty() ? MPI_SUCCESS : report_done(completion, done[0], wanted(status));
  if (call.succeeded(result)) completion.record_test(!flag);
  return result;
}

int live_some(const Call& call, bool waited, int count, MPI_Request handles[], int* done, int indices[],
              MPI_Status* statuses) {
  Completion completion(handles, count);
  if (completion.numbers().empty())
    return (waited ? PMPI(MPI_Waitsome) : PMPI(MPI_Testsome))(count, handles, done, indices, statuses);
  *done = 0;
  for (const int index : query_completion(completion, Question::some, waited)) {
    const int result = report_done(completion, index, wanted_of(statuses, *done));
    if (!call.succeeded(result)) return result;
    indices[(*done)++] = index;
  }
  completion.record_test(waited);
  return MPI_SUCCESS;
}

int live_status(const Call& call, MPI_Request request, int* flag, MPI_Status* status) {
  Completion completion(&request, 1);
  if (completion.numbers().empty()) {
    const int result = completion.held() ? completion.complete(0, wanted(status), true)
                                         : PMPI(MPI_Request_get_status)(request, flag, status);
    if (completion.held()) *flag = 1;
    return result;
  }
  *flag = !query_completion(completion, Question::all, false).empty();
  const int result = *flag ? report_done(completion, 0, wanted(status), true) : MPI_SUCCESS;
  if (call.succeeded(result)) completion.record_test(false);
  return result;
}

}  // namespace nearfield::observe
