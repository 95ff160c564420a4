#include "loopback_communicator.hpp"

#include <cstring>
#include <set>

namespace nearfield::sim {

// LoopbackRank rank.
class LoopbackCommunicator::LoopbackRank final : public Communicator {
 public:
  LoopbackRank(LoopbackCommunicator& all, int rank) : all_(all), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return all_.ranks(); }
  CollectiveAlgorithms algorithms() const override { return all_.algorithms_; }
  Request send(int to, const Buffer& data) override {
    all_.pair(rank_, to).sent.push_back(begin(data));
    all_.match(rank_, to);
    return {nullptr, serial_};
  }
  Request receive(int from, const Buffer& buffer) override {
    all_.pair(from, rank_).wanted.push_back(begin(buffer));
    all_.match(from, rank_);
    return {nullptr, serial_};
  }
  Task<> wait(std::span<const Request> requests) override {
    for (const Request request : requests)
      while (open_.contains(request.serial)) co_await Sleep{*this};
  }
  Task<> copy(Address to, Address from, std::uint64_t bytes) override {
    if (bytes > 0) std::memcpy(at(to, bytes), at(from, bytes), bytes);
    co_return;
  }
  Task<> copy(Buffer to, Buffer from) override { return copy(to.address, from.address, from.bytes()); }
  Task<> combine(Address into, Address from, std::uint64_t bytes) override {
    if (bytes == 0) co_return;
    std::byte* const sum = at(into, bytes);
    const std::byte* const more = at(from, bytes);
    for (std::uint64_t i = 0; i < bytes; ++i)
      sum[i] = static_cast<std::byte>(std::to_integer<unsigned>(sum[i]) + std::to_integer<unsigned>(more[i]));
  }
  Address acquire(std::uint64_t bytes) override {
    const Address begin = next_;
    next_ += bytes + 64;
    auto& buffer = buffers_[begin];
    buffer.assign(bytes, static_cast<std::byte>(all_.random_()));
    return begin;
  }
  void release(Address buffer, std::uint64_t bytes) override {
    if (buffers_.at(buffer).size() != bytes) throw std::logic_error("given back with another length");
    buffers_.erase(buffer);
  }

  std::byte* at(Address address, std::uint64_t bytes) {
    const auto after = buffers_.upper_bound(address);
    if (after == buffers_.begin()) throw std::out_of_range("before all buffers");
    const auto& [begin, buffer] = *std::prev(after);
    if (address + bytes > begin + buffer.size()) throw std::out_of_range("outside its buffer");
    return const_cast<std::byte*>(buffer.data()) + (address - begin);
  }
  void complete(std::uint64_t serial) {
    open_.erase(serial);
    if (!sleeper_) throw std::logic_error("a request was not waited for");
    std::exchange(sleeper_, {}).resume();
  }
  std::size_t open() const { return open_.size(); }
  std::size_t buffers() const { return buffers_.size(); }

 private:
  struct Sleep {
    LoopbackRank& me;
    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> waiting) const { me.sleeper_ = waiting; }
    void await_resume() const {}
  };
  Transfer begin(const Buffer& buffer) {
    if (buffer.bytes() > 0) at(buffer.address, buffer.bytes());
    open_.insert(++serial_);
    return {rank_, buffer, serial_};
  }

  LoopbackCommunicator& all_;
  int rank_;
  std::map<Address, std::vector<std::byte>> buffers_;
  Address next_ = 4096;
  std::uint64_t serial_ = 0;
  std::set<std::uint64_t> open_;
  std::coroutine_handle<> sleeper_;
};

LoopbackCommunicator::LoopbackCommunicator(int ranks, unsigned seed, CollectiveAlgorithms algorithms)
    : pairs_(static_cast<std::size_t>(ranks * ranks)), random_(seed), algorithms_(algorithms) {
  for (int r = 0; r < ranks; ++r) ranks_.push_back(std::make_unique<LoopbackRank>(*this, r));
}

LoopbackCommunicator::~LoopbackCommunicator() = default;

LoopbackCommunicator::Pair& LoopbackCommunicator::pair(int from, int to) {
  return pairs_.at(static_cast<std::size_t>(from * ranks() + to));
}

Address LoopbackCommunicator::allocate(int rank, std::uint64_t bytes) {
  return ranks_.at(static_cast<std::size_t>(rank))->acquire(bytes);
}

std::byte* LoopbackCommunicator::at(int rank, Address address, std::uint64_t bytes) {
  return ranks_.at(static_cast<std::size_t>(rank))->at(address, bytes);
}

void LoopbackCommunicator::match(int from, int to) {
  const Pair& both = pair(from, to);
  if (std::min(both.sent.size(), both.wanted.size()) > 0) ready_.emplace_back(from, to);
}

void LoopbackCommunicator::deliver_one() {
  const std::size_t index = random_() % ready_.size();
  const auto [from, to] = ready_[index];
  ready_.erase(ready_.begin() + static_cast<std::ptrdiff_t>(index));
  Pair& both = pair(from, to);
  if (both.sent.empty() || both.wanted.empty()) return;  // it was ready twice
  const Transfer sent = both.sent.front(), wanted = both.wanted.front();
  both.sent.pop_front();
  both.wanted.pop_front();
  if (!both.sent.empty() && !both.wanted.empty()) ready_.emplace_back(from, to);
  const std::uint64_t bytes = sent.buffer.bytes();
  if (bytes > wanted.buffer.bytes()) throw std::length_error("longer than its receive");
  if (bytes > 0) std::memcpy(at(to, wanted.buffer.address, bytes), at(from, sent.buffer.address, bytes), bytes);
  ranks_[static_cast<std::size_t>(from)]->complete(sent.serial);
  ranks_[static_cast<std::size_t>(to)]->complete(wanted.serial);
}

namespace {

Task<> guarded(const CollectiveSpec& spec, Communicator& all, CollectiveCall call, std::exception_ptr& failure) {
  try {
    co_await spec.run(all, call);
  } catch (...) {
    failure = std::current_exception();
  }
}

}  // namespace

void LoopbackCommunicator::run(const CollectiveSpec& spec, const std::vector<CollectiveCall>& calls) {
  std::vector<std::size_t> buffers_before;
  std::exception_ptr failure;
  std::vector<Task<>> tasks;
  for (int r = 0; r < ranks(); ++r) {
    LoopbackRank& rank = *ranks_[static_cast<std::size_t>(r)];
    buffers_before.push_back(rank.buffers());
    tasks.push_back(guarded(spec, rank, calls[static_cast<std::size_t>(r)], failure));
  }
  for (auto& task : tasks) task.handle().resume();
  while (!ready_.empty() && !failure) deliver_one();
  if (failure) std::rethrow_exception(failure);
  for (int r = 0; r < ranks(); ++r) {
    const LoopbackRank& rank = *ranks_[static_cast<std::size_t>(r)];
    if (!tasks[static_cast<std::size_t>(r)].done()) throw std::logic_error("a rank waits for ever");
    if (rank.open() > 0) throw std::logic_error("a request is left");
    if (rank.buffers() != buffers_before[static_cast<std::size_t>(r)]) throw std::logic_error("a buffer is left");
  }
}

}  // namespace nearfield::sim
