// The requests of one call of a function of the MPI_Wait or MPI_Test family. Events do not mention inactive requests
// and requests that the wrappers do not know (of files, generalised requests).
#pragma once

#include <vector>

#include "preload/observe/mpi/requests.hpp"
#include "preload/observe/mpi/wrapper.hpp"

namespace nearfield::observe {

// The constructor moves the requests out of the table of requests.hpp before the MPI library's call. The destructor
// drops the requests that the call has freed, and returns the others to the table.
class Completion {
 public:
  Completion(MPI_Request* handles, int count) : now_(handles), before_(handles, handles + count) {
    for (int i = 0; i < count; ++i) {
      requests().take_entry(handles + i, taken_);
      at_.push_back(&taken_.back());
      has_receives_ |= taken_.back().is_receive;
      if (taken_.back().number) numbers_.push_back(taken_.back().number), places_.push_back(i);
    }
  }

  // Returns the array to which the MPI library shall write statuses: the program's array, or a private array if the
  // program ignores statuses and some request is a receive.
  MPI_Status* statuses_to_write(MPI_Status* wanted) {
    if (wanted != MPI_STATUSES_IGNORE || !has_receives_) return wanted;
    own_.resize(before_.size());
    return own_.data();
  }

  // Records that the program has observed the completion of request `index`.
  void record_completion_of(int index, const MPI_Status* status) {
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

  // ---- for a live simulation
  const std::vector<stream::Number>& request_numbers() const { return numbers_; }
  // Returns whether the first request has a message whose completion the program has already observed.
  bool has_completed_message() const { return !at_.empty() && at_[0]->held; }
  int request_count() const { return static_cast<int>(at_.size()); }
  // Returns the index, in the program's array, of the request at `place` in request_numbers().
  int index_of(std::int64_t place) const { return places_[static_cast<std::size_t>(place)]; }
  // Blocks, like MPI_Wait, until the MPI library has completed a request that is complete in the simulation. Returns
  // MPI's error code.
  int complete_in_library(int index, MPI_Status* status, bool keeps_handle);

  void record_completed() {
    if (!done_.empty()) record(stream::Completed{done_});
  }
  void record_test(bool waited) {
    if (!numbers_.empty()) record(stream::Tested{numbers_, done_, waited});
  }

  // Requests that the MPI library has freed have the handle MPI_REQUEST_NULL.
  ~Completion() {
    for (const stream::Number number : done_) requests().release_number(number);
    for (std::size_t i = 0; i < before_.size(); ++i)
      if (before_[i] == MPI_REQUEST_NULL || now_[i] == MPI_REQUEST_NULL)
        requests().drop_entry(taken_);
      else
        requests().return_entry(before_[i], taken_);
  }

 private:
  MPI_Request* now_;
  std::vector<MPI_Request> before_;
  std::list<Request> taken_;
  std::vector<Request*> at_;
  std::vector<stream::Number> numbers_, done_;
  std::vector<int> places_;  // for each of numbers_, the index in the program's array
  std::vector<MPI_Status> own_;
  bool has_receives_ = false;
};

}  // namespace nearfield::observe
