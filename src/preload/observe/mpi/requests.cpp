#include "preload/observe/mpi/requests.hpp"

#include <algorithm>

#include "preload/observe/mpi/neighbours.hpp"
#include "preload/observe/mpi/wrapper.hpp"

namespace nearfield::observe {

using stream::Number;

RequestTable& requests() {
  static RequestTable& instance = *new RequestTable;  // never destroyed: programs may finalise MPI in exit handlers
  return instance;
}

Number RequestTable::allocate_number() {
  if (free_numbers_.empty()) return ++max_number_;
  const Number number = free_numbers_.back();
  free_numbers_.pop_back();
  return number;
}

void RequestTable::release_number(Number number) {
  if (number) free_numbers_.push_back(number);
}

std::list<Request> RequestTable::take_spare_entry() {
  std::list<Request> entry;
  if (spare_entries_.empty())
    entry.emplace_back();
  else
    entry.splice(entry.end(), spare_entries_, spare_entries_.begin());
  return entry;
}

void RequestTable::add_request(const MPI_Request* handle_address, Request request) {
  std::list<Request> entry = take_spare_entry();
  entry.front() = std::move(request);
  entry.front().handle_address = handle_address;
  std::list<Request>& entries_of_handle = entries_by_handle_[key_of_handle(*handle_address)];
  entries_of_handle.splice(entries_of_handle.end(), entry);
}

bool RequestTable::take_entry(const MPI_Request* handle_address, std::list<Request>& to) {
  const auto found = *handle_address == MPI_REQUEST_NULL ? entries_by_handle_.end()
                                                         : entries_by_handle_.find(key_of_handle(*handle_address));
  if (found == entries_by_handle_.end() || found->second.empty()) {
    std::list<Request> entry = take_spare_entry();
    entry.front() = Request();
    to.splice(to.end(), entry);
    return false;
  }
  std::list<Request>& entries_of_handle = found->second;
  auto at = std::find_if(entries_of_handle.begin(), entries_of_handle.end(),
                         [handle_address](const Request& entry) { return entry.handle_address == handle_address; });
  if (at == entries_of_handle.end()) at = entries_of_handle.begin();
  to.splice(to.end(), entries_of_handle, at);
  return true;
}

void RequestTable::return_entry(MPI_Request handle, std::list<Request>& from) {
  if (!from.front().handle_address) return recycle_entry(from);
  std::list<Request>& entries_of_handle = entries_by_handle_[key_of_handle(handle)];
  entries_of_handle.splice(entries_of_handle.begin(), from, from.begin());
}

void RequestTable::recycle_entry(std::list<Request>& from) {
  spare_entries_.splice(spare_entries_.end(), from, from.begin());
}

Request* RequestTable::find_persistent(MPI_Request handle) {
  const auto found = entries_by_handle_.find(key_of_handle(handle));
  if (found == entries_by_handle_.end() || found->second.empty() || !found->second.front().is_persistent())
    return nullptr;
  return &found->second.front();
}

template <class Kind>
Number record_start_of(Kind event) {
  event.request = requests().allocate_number();
  record_event(event);
  return event.request;
}
template Number record_start_of(stream::Send);
template Number record_start_of(stream::Receive);
template Number record_start_of(stream::Collective);

void record_outcome(Number number, const MPI_Status& status) {
  MPI_Count bytes = 0;
  PMPI(MPI_Get_elements_x)(&status, MPI_BYTE, &bytes);
  const std::int64_t tag = status.MPI_TAG == MPI_ANY_TAG ? stream::any_source_or_tag : status.MPI_TAG;
  record_event(stream::Outcome{number, to_stream_rank(status.MPI_SOURCE), tag,
                               static_cast<Number>(std::max<MPI_Count>(bytes, 0))});
}

void record_wait_started(std::vector<Number> numbers) {
  if (is_live() && !numbers.empty()) record_event(stream::WaitStarted{std::move(numbers)});
}

void record_wait_completed(std::vector<Number> numbers) {
  for (const Number number : numbers) requests().release_number(number);
  record_event(stream::RequestsCompleted{std::move(numbers)});
}

}  // namespace nearfield::observe
