// The requests of one call of a function of the MPI_Wait or MPI_Test family. Events do not mention inactive requests,
// nor requests that the wrappers do not record (of files, generalised requests).
#pragma once

#include <vector>

#include "preload/observe/mpi/requests.hpp"
#include "preload/observe/mpi/wrapper.hpp"

namespace nearfield::observe {

// The constructor moves the requests out of the table of requests.hpp before the MPI library's call. The destructor
// drops the requests that the call has freed, and returns the others to the table.
class RequestCompletion {
 public:
  RequestCompletion(MPI_Request* handles, int count)
      : handles_(handles), handles_before_call_(handles, handles + count) {
    for (int i = 0; i < count; ++i) {
      requests().take_entry(handles + i, entries_);
      entry_by_index_.push_back(&entries_.back());
      has_receives_ |= entries_.back().is_receive;
      if (entries_.back().number) request_numbers_.push_back(entries_.back().number), index_by_position_.push_back(i);
    }
  }

  // Returns the array into which the MPI library is to write statuses: the program's array, or a private array if the
  // program ignores statuses and some request is a receive.
  MPI_Status* statuses_to_write(MPI_Status* program_statuses) {
    if (program_statuses != MPI_STATUSES_IGNORE || !has_receives_) return program_statuses;
    private_statuses_.resize(handles_before_call_.size());
    return private_statuses_.data();
  }

  // Records that the program has observed the completion of request `index`.
  void record_completion_of(int index, const MPI_Status* status) {
    Request& request = *entry_by_index_[static_cast<std::size_t>(index)];
    if (request.on_completion) request.on_completion();
    if (request.number == 0) return;
    if (request.is_to_proc_null)
      record_event(stream::Outcome{request.number, stream::proc_null, stream::any_source_or_tag, 0});
    else if (request.is_receive)
      record_outcome(request.number, *status);
    completed_numbers_.push_back(request.number);
    request.number = 0;
  }

  // ---- for a live simulation
  const std::vector<stream::Number>& request_numbers() const { return request_numbers_; }
  // Returns whether the first request has a message whose completion the program has already observed.
  bool has_completed_message() const { return !entry_by_index_.empty() && entry_by_index_[0]->live_message; }
  int num_requests() const { return static_cast<int>(entry_by_index_.size()); }
  // Returns the index, in the program's array, of the request at `position` in request_numbers().
  int index_of(std::int64_t position) const { return index_by_position_[static_cast<std::size_t>(position)]; }
  // Blocks, like MPI_Wait, until the MPI library has completed a request that is complete in the simulation. Returns
  // MPI's error code.
  int complete_request_in_library(int index, MPI_Status* status, bool keeps_handle);

  void record_wait_completed() {
    if (!completed_numbers_.empty()) record_event(stream::RequestsCompleted{completed_numbers_});
  }
  void record_test(bool is_blocking) {
    if (!request_numbers_.empty())
      record_event(stream::RequestsTested{request_numbers_, completed_numbers_, is_blocking});
  }

  // Requests that the MPI library has freed have the handle MPI_REQUEST_NULL.
  ~RequestCompletion() {
    for (const stream::Number number : completed_numbers_) requests().release_number(number);
    for (std::size_t i = 0; i < handles_before_call_.size(); ++i)
      if (handles_before_call_[i] == MPI_REQUEST_NULL || handles_[i] == MPI_REQUEST_NULL)
        requests().recycle_entry(entries_);
      else
        requests().return_entry(handles_before_call_[i], entries_);
  }

 private:
  MPI_Request* handles_;
  std::vector<MPI_Request> handles_before_call_;
  std::list<Request> entries_;
  std::vector<Request*> entry_by_index_;
  std::vector<stream::Number> request_numbers_, completed_numbers_;
  std::vector<int> index_by_position_;  // for each of request_numbers_, the index in the program's array
  std::vector<MPI_Status> private_statuses_;
  bool has_receives_ = false;
};

}  // namespace nearfield::observe
