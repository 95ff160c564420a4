#include "observe/mpi/asked_completion.hpp"

#include "observe/mpi/asking.hpp"
#include "observe/mpi/completion.hpp"
#include "observe/mpi/held.hpp"

namespace nearfield::observe {
namespace {

using stream::Question;

// Returns which of all requests are done.
std::vector<int> ask_about(const Completion& its, Question question, bool waited) {
  std::vector<int> done;
  for (const std::int64_t place : ask({question, its.numbers(), waited, 0, 0, 0})) done.push_back(its.index_of(place));
  return done;
}

// The program is told that this one is done. `to`: where it wants the status; null if it does not.
int tell_done(Completion& its, int index, MPI_Status* to, bool keep = false) {
  MPI_Status status;
  const int result = its.complete(index, &status, keep);
  if (result != MPI_SUCCESS) return result;
  its.done(index, &status);
  if (to) *to = status;
  return result;
}

MPI_Status* wanted(MPI_Status* status) { return status == MPI_STATUS_IGNORE ? nullptr : status; }
MPI_Status* wanted_of(MPI_Status* statuses, int index) {
  return statuses == MPI_STATUSES_IGNORE ? nullptr : statuses + index;
}

int tell_all_done(const Call& call, Completion& its, MPI_Status* statuses) {
  for (int i = 0; i < its.count(); ++i) {
    const int result = tell_done(its, i, wanted_of(statuses, i));
    if (!call.succeeded(result)) return result;
  }
  return MPI_SUCCESS;
}

}  // namespace

int Completion::complete(int index, MPI_Status* status, bool keep) {
  const auto at = static_cast<std::size_t>(index);
  Request& its = *at_[at];
  if (!its.held && !keep) return wait_for(now_ + at, status);
  if (!its.held) {
    int flag = 0, result = MPI_SUCCESS;
    go_on_when([&] { return result = PMPI(MPI_Request_get_status)(now_[at], &flag, status), flag || result; });
    return result;
  }
  const int result = finish(*its.held, status);
  if (keep || result != MPI_SUCCESS) return result;
  its.held.reset();
  if (its.is_persistent()) return result;
  give_handle(now_[at]);
  now_[at] = MPI_REQUEST_NULL;
  return result;
}

int asked_waitall(const Call& call, int count, MPI_Request handles[], MPI_Status* statuses) {
  Completion its(handles, count);
  record_waits(its.numbers());
  const int result = tell_all_done(call, its, statuses);
  its.record_wait();
  return result;
}

int asked_wait(const Call& call, MPI_Request* request, MPI_Status* status) {
  return asked_waitall(call, 1, request, status == MPI_STATUS_IGNORE ? MPI_STATUSES_IGNORE : status);
}

int asked_testall(const Call& call, int count, MPI_Request handles[], int* flag, MPI_Status* statuses) {
  Completion its(handles, count);
  const bool known = its.numbers().empty();  // that they are done, or that they are none of ours
  if (known && !its.held()) return PMPI(MPI_Testall)(count, handles, flag, statuses);
  *flag = known || !ask_about(its, Question::all, false).empty();
  const int result = *flag ? tell_all_done(call, its, statuses) : MPI_SUCCESS;
  its.record_look(false);
  return result;
}

int asked_test(const Call& call, MPI_Request* request, int* flag, MPI_Status* status) {
  return asked_testall(call, 1, request, flag, status == MPI_STATUS_IGNORE ? MPI_STATUSES_IGNORE : status);
}

int asked_any(const Call& call, int count, MPI_Request handles[], int* index, int* flag, MPI_Status* status) {
  Completion its(handles, count);
  if (its.numbers().empty())
    return flag ? PMPI(MPI_Testany)(count, handles, index, flag, status)
                : PMPI(MPI_Waitany)(count, handles, index, status);
  const auto done = ask_about(its, Question::one, !flag);
  *index = done.empty() ? MPI_UNDEFINED : done[0];
  if (flag) *flag = !done.empty();
  const int result = done.empty() ? MPI_SUCCESS : tell_done(its, done[0], wanted(status));
  if (call.succeeded(result)) its.record_look(!flag);
  return result;
}

int asked_some(const Call& call, bool waited, int count, MPI_Request handles[], int* done, int indices[],
               MPI_Status* statuses) {
  Completion its(handles, count);
  if (its.numbers().empty())
    return (waited ? PMPI(MPI_Waitsome) : PMPI(MPI_Testsome))(count, handles, done, indices, statuses);
  *done = 0;
  for (const int index : ask_about(its, Question::some, waited)) {
    const int result = tell_done(its, index, wanted_of(statuses, *done));
    if (!call.succeeded(result)) return result;
    indices[(*done)++] = index;
  }
  its.record_look(waited);
  return MPI_SUCCESS;
}

int asked_status(const Call& call, MPI_Request request, int* flag, MPI_Status* status) {
  Completion its(&request, 1);
  if (its.numbers().empty()) {
    const int result =
        its.held() ? its.complete(0, wanted(status), true) : PMPI(MPI_Request_get_status)(request, flag, status);
    if (its.held()) *flag = 1;
    return result;
  }
  *flag = !ask_about(its, Question::all, false).empty();
  const int result = *flag ? tell_done(its, 0, wanted(status), true) : MPI_SUCCESS;
  if (call.succeeded(result)) its.record_look(false);
  return result;
}

}  // namespace nearfield::observe
