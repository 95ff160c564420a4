// Wait and Test in all forms, and MPI_Request_get_status. Requests that the wrappers do not know (of files, generalised
// ones) and inactive ones are in no event.
#include "observe/mpi/requests.hpp"
#include "observe/mpi/wrapper.hpp"

namespace nearfield::observe {
namespace {

using stream::Number;

// The requests of one call: taken out of the table before it, and afterwards dropped or put back.
class Completion {
 public:
  Completion(MPI_Request* handles, int count) : now_(handles), before_(handles, handles + count) {
    for (int i = 0; i < count; ++i) {
      requests().take(handles + i, taken_);
      at_.push_back(&taken_.back());
      has_receives_ |= taken_.back().is_receive;
      if (taken_.back().number) numbers_.push_back(taken_.back().number);
    }
  }

  // Returns where the MPI library writes statuses: where the program wants them, or if it wants none, to own ones.
  MPI_Status* statuses(MPI_Status* wanted, MPI_Status* ignored) {
    if (wanted != ignored || !has_receives_) return wanted;
    own_.resize(before_.size());
    return own_.data();
  }

  // The program was told that this one is done.
  void done(int index, const MPI_Status* status) {
    Request& request = *at_[static_cast<std::size_t>(index)];
    if (request.at_end) request.at_end();
    if (request.number == 0) return;
    if (request.is_to_nobody)
      record(stream::Outcome{request.number, stream::proc_null, stream::any, 0});
    else if (request.is_receive)
      record_outcome(request.number, *status);
    done_.push_back(request.number);
    request.number = 0;
  }
  void all_done(const MPI_Status* statuses) {
    for (std::size_t i = 0; i < at_.size(); ++i) done(static_cast<int>(i), has_receives_ ? statuses + i : nullptr);
  }

  void record_wait() {
    if (!done_.empty()) record(stream::Wait{done_});
  }
  void record_look(bool waited) {
    if (!numbers_.empty()) record(stream::Looked{numbers_, done_, waited});
  }

  // The MPI library set the handles of those to MPI_REQUEST_NULL that exist no more.
  ~Completion() {
    for (const Number number : done_) requests().over(number);
    for (std::size_t i = 0; i < before_.size(); ++i)
      if (before_[i] == MPI_REQUEST_NULL || now_[i] == MPI_REQUEST_NULL)
        requests().drop(taken_);
      else
        requests().give_back(before_[i], taken_);
  }

 private:
  MPI_Request* now_;
  std::vector<MPI_Request> before_;
  std::list<Request> taken_;
  std::vector<Request*> at_;
  std::vector<Number> numbers_, done_;
  std::vector<MPI_Status> own_;
  bool has_receives_ = false;
};

}  // namespace
}  // namespace nearfield::observe

using namespace nearfield::observe;

WRAPPED(MPI_Wait, (MPI_Request * request, MPI_Status* status), (request, status)) {
  Completion completion(request, 1);
  MPI_Status* const used = completion.statuses(status, MPI_STATUS_IGNORE);
  const int result = PMPI(MPI_Wait)(request, used);
  if (!call.succeeded(result)) return result;
  completion.all_done(used);
  completion.record_wait();
  return result;
}

WRAPPED(MPI_Waitall, (int count, MPI_Request handles[], MPI_Status* statuses), (count, handles, statuses)) {
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
  Completion completion(handles, count);
  MPI_Status* const used = completion.statuses(status, MPI_STATUS_IGNORE);
  const int result = PMPI(MPI_Waitany)(count, handles, index, used);
  if (!call.succeeded(result)) return result;
  if (*index != MPI_UNDEFINED) completion.done(*index, used);
  completion.record_look(true);
  return result;
}

WRAPPED(MPI_Test, (MPI_Request * request, int* flag, MPI_Status* status), (request, flag, status)) {
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
  Completion completion(&request, 1);
  MPI_Status* const used = completion.statuses(status, MPI_STATUS_IGNORE);
  const int result = PMPI(MPI_Request_get_status)(request, flag, used);
  if (!call.succeeded(result)) return result;
  if (*flag) completion.all_done(used);
  completion.record_look(false);
  return result;
}
