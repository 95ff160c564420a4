#include "preload/observe/mpi/requests.hpp"

#include <algorithm>

#include "preload/observe/mpi/neighbours.hpp"
#include "preload/observe/mpi/wrapper.hpp"

namespace nearfield::observe {

using stream::Number;

Requests& requests() {
  static Requests& only = *new Requests;  // never destroyed: programs may finalise MPI in exit handlers
  return only;
}

Number Requests::allocate_number() {
  if (free_numbers_.empty()) return ++max_number_;
  const Number number = free_numbers_.back();
  free_numbers_.pop_back();
  return number;
}

void Requests::release_number(Number number) {
  if (number) free_numbers_.push_back(number);
}

std::list<Request> Requests::take_spare_entry() {
  std::list<Request> one;
  if (spare_.empty())
    one.emplace_back();
  else
    one.splice(one.end(), spare_, spare_.begin());
  return one;
}

void Requests::add(const MPI_Request* home, Request request) {
  std::list<Request> one = take_spare_entry();
  one.front() = std::move(request);
  one.front().home = home;
  std::list<Request>& same = table_[key_of(*home)];
  same.splice(same.end(), one);
}

bool Requests::take_entry(const MPI_Request* home, std::list<Request>& to) {
  const auto found = *home == MPI_REQUEST_NULL ? table_.end() : table_.find(key_of(*home));
  if (found == table_.end() || found->second.empty()) {
    std::list<Request> one = take_spare_entry();
    one.front() = Request();
    to.splice(to.end(), one);
    return false;
  }
  std::list<Request>& same = found->second;
  auto at = std::find_if(same.begin(), same.end(), [home](const Request& one) { return one.home == home; });
  if (at == same.end()) at = same.begin();
  to.splice(to.end(), same, at);
  return true;
}

void Requests::return_entry(MPI_Request handle, std::list<Request>& from) {
  if (!from.front().home) return drop_entry(from);
  std::list<Request>& same = table_[key_of(handle)];
  same.splice(same.begin(), from, from.begin());
}

void Requests::drop_entry(std::list<Request>& from) { spare_.splice(spare_.end(), from, from.begin()); }

Request* Requests::find_persistent(MPI_Request handle) {
  const auto found = table_.find(key_of(handle));
  if (found == table_.end() || found->second.empty() || !found->second.front().is_persistent()) return nullptr;
  return &found->second.front();
}

template <class Kind>
Number record_start_of(Kind event) {
  event.request = requests().allocate_number();
  record(event);
  return event.request;
}
template Number record_start_of(stream::Send);
template Number record_start_of(stream::Receive);
template Number record_start_of(stream::Collective);

void record_outcome(Number number, const MPI_Status& status) {
  MPI_Count bytes = 0;
  PMPI(MPI_Get_elements_x)(&status, MPI_BYTE, &bytes);
  const std::int64_t tag = status.MPI_TAG == MPI_ANY_TAG ? stream::any : status.MPI_TAG;
  record(stream::Outcome{number, peer_of(status.MPI_SOURCE), tag, static_cast<Number>(std::max<MPI_Count>(bytes, 0))});
}

void record_wait_started(std::vector<Number> numbers) {
  if (is_live() && !numbers.empty()) record(stream::WaitStarted{std::move(numbers)});
}

void record_completed(std::vector<Number> numbers) {
  for (const Number number : numbers) requests().release_number(number);
  record(stream::Completed{std::move(numbers)});
}

}  // namespace nearfield::observe
