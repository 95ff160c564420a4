#include "sim/endpoint.hpp"

#include <algorithm>
#include <stdexcept>

#include "sim/nic/nic.hpp"

namespace nearfield::sim {
namespace {

constexpr std::uint64_t lines_per_queue = 32;  // between two ranks of a node
// The bytes that a rank works on before others get their turn. Memory serves in the order in which it is asked, so of
// ranks that share one none may be more than a line or two ahead.
constexpr std::uint64_t slice_alone = 4096, slice_shared = 128;

std::uint64_t line_bytes(const Machine& machine) {
  int longest = 64;
  for (const auto& cache : machine.caches) longest = std::max(longest, cache.line_bytes);
  return static_cast<std::uint64_t>(longest);
}

}  // namespace

Endpoint::Endpoint(Site& site, Node& node, Nic* nic, int rank, int core, bool alone)
    : site_(site),
      world_(site.world),
      node_(node),
      nic_(nic),
      rank_(rank),
      core_(core),
      facade_(*this),
      scratch_([&node, core](std::uint64_t bytes) { return node.allocate(core, bytes); }),
      send_(ps_from_ns(messaging().send_ns)),
      receive_(ps_from_ns(messaging().receive_ns)),
      match_(ps_from_ns(messaging().match_ns)),
      slice_bytes_(alone ? slice_alone : slice_shared) {}

// ---- programs

Request Endpoint::send(const Pattern& to, const Buffer& data, bool synchronous) {
  Operation& operation = made(Operation::Kind::send, to, data);
  operation.synchronous = synchronous;
  call({&operation, 0});
  return {&operation, operation.serial};
}

Request Endpoint::receive(const Pattern& from, const Buffer& buffer, const std::optional<Pattern>& asked,
                          std::uint64_t told) {
  Operation& operation = made(Operation::Kind::receive, from, buffer);
  operation.asked = asked;
  operation.told = told;
  call({&operation, 0});
  return {&operation, operation.serial};
}

Operation& Endpoint::made(Operation::Kind kind, const Pattern& pattern, const Buffer& buffer) {
  const int size = static_cast<int>(world_.ranks.size()), peer = pattern.peer;
  const bool any = kind == Operation::Kind::receive && peer == any_rank;
  if ((peer < 0 || peer >= size) && !any)
    throw std::out_of_range("rank " + std::to_string(rank_) +
                            (kind == Operation::Kind::send ? " sends to rank " : " receives from rank ") +
                            std::to_string(peer) + "; there are 0 to " + std::to_string(size - 1));
  Operation* const operation = site_.operations.take();
  const std::uint64_t serial = operation->serial + 1;
  *operation = Operation{};
  static_cast<Pattern&>(*operation) = pattern;
  operation->kind = kind;
  operation->buffer = buffer;
  operation->serial = serial;
  return *operation;
}

void Endpoint::call(const Call& call) {
  const bool first_of_all = !node_.has_memory() || !site_.engine.anything_until(first());
  if (calls_.empty() && first_of_all)
    perform(call);
  else
    calls_.push_back(call);
}

Task<> Endpoint::catch_up() {
  for (std::size_t i = 0; i < calls_.size(); ++i) {
    co_await settle();
    perform(calls_[i]);
  }
  calls_.clear();
}

void Endpoint::hurry() {
  for (const Call& call : calls_) perform(call);
  calls_.clear();
}

void Endpoint::perform(const Call& call) {
  if (!call.operation) return advance(call.duration);
  const Clock before = now();
  if (call.operation->kind == Operation::Kind::send) {
    perform_send(*call.operation);
    in_calls_.sending += now() - before;
  } else {
    perform_receive(*call.operation);
    in_calls_.receiving += now() - before;
  }
}

void Endpoint::reset_in_calls() {
  const Clock none(world_.variants);
  in_calls_ = {none, none, none};
}

void Endpoint::perform_send(Operation& operation) {
  Endpoint& receiver = other(operation.peer);
  advance(send_);
  Message& message = *site_.messages.take();
  message = Message{};
  message.from = this;
  message.to = &receiver;
  const bool within_node = &receiver.site_ == &site_;
  message.tag = operation.tag;
  message.context = operation.context;
  message.data = operation.buffer;
  message.sent = now();
  message.bytes = operation.buffer.bytes();
  message.sequence = peer(operation.peer).sent++;
  message.synchronous = operation.synchronous;
  message.holders = within_node ? 2 : 1;
  message.protocol = &site_.protocol(within_node, message.bytes, message.synchronous);
  message.send = &operation;
  message.protocol->start(*this, message);
}

void Endpoint::perform_receive(Operation& operation) {
  const bool any = operation.peer == any_rank;
  const bool from_anywhere = any || (operation.asked && operation.asked->peer == any_rank);
  const bool by_network = from_anywhere ? has_nic() : &other(operation.peer).site_ != &site_;
  advance(receive_);
  if (by_network && site_.network_large->matches_at_nic()) nic_->post(core_);
  operation.posted = now();
  operation.number = ++posted_;
  if (operation.asked) impose(operation);
  int from = operation.peer;
  if (const Message* const oldest = any ? unexpected(operation) : nullptr) from = oldest->from->rank_;
  Message* message = nullptr;
  if (from != any_rank)
    message =
        peer(from).unexpected.take([&](const Message& one) { return operation.takes(from, one.tag, one.context); });
  if (!message) return (any ? posted_to_any_ : peer(operation.peer).posted).push(&operation);
  fits(*message, operation);
  if (operation.asked) chosen({*operation.asked, from, operation.number, message->visible}, message);
  message->receive = &operation;
  tell_match(operation, *message);
  message->protocol->posted(*this, *message);
}

Task<> Endpoint::wait(Request request) {
  Operation* const operation = request.operation;
  if (!operation || operation->serial != request.serial) co_return;
  if (!calls_.empty()) co_await catch_up();
  const Clock before = now();
  waiting_for_ = operation;
  while (!operation->done) co_await go_on();
  waiting_for_ = nullptr;
  in_calls_.waiting += now() - before;
  ready_ = operation->ready;
  release(*operation);
}

void Endpoint::release(Operation& operation) {
  ++operation.serial;
  site_.operations.give(&operation);
}

Task<> Endpoint::probe(const Pattern& pattern, const std::optional<Pattern>& asked, bool waited) {
  if (!calls_.empty()) co_await catch_up();
  const Clock since = now();
  advance(match_);
  co_await probed(pattern, asked, waited, since);
  in_calls_.waiting += now() - since;
}

Task<> Endpoint::probed(const Pattern& pattern, const std::optional<Pattern>& asked, bool waited, Clock since) {
  probing_ = &pattern;
  const Message* message = nullptr;
  while (true) {
    co_await settle();  // a message that the NIC matches meanwhile wakes nobody
    if ((message = unexpected(pattern))) break;
    co_await go_on();
  }
  probing_ = nullptr;
  if (asked) {
    Chosen choice{*asked, message->from->rank_, posted_ + 1, message->visible};
    if (!waited) choice.otherwise = before(since, message->visible);
    chosen(choice, message);
  }
  if (message->kept) node_.wait_until(core_, message->kept->first);  // the NIC tells that it has it
}

Task<> Endpoint::look() {
  if (!calls_.empty()) co_await catch_up();
  const Clock before = now();
  advance(match_);
  co_await settle();
  while (!inbox_.empty()) co_await go_on();
  in_calls_.waiting += now() - before;
}

Task<> Endpoint::next_item() {
  if (!calls_.empty()) co_await catch_up();
  const Clock before = now();
  waits_for_any_ = true;
  co_await go_on();
  waits_for_any_ = false;
  in_calls_.waiting += now() - before;
}

Task<> Endpoint::something() {
  if (!calls_.empty()) co_await catch_up();
  const Clock before = now();
  const int released = released_;
  polling_ = true;
  co_await go_on();
  polling_ = false;
  if (released == released_) released_ = 0;
  while (!inbox_.empty()) co_await go_on();
  in_calls_.waiting += now() - before;
}

void Endpoint::release(Ps when) {
  ++released_;
  if (when > first()) advance(when - first());
  site_.engine.resume_at(first(), std::exchange(sleeper_, {}));
}

// Windows lets them go on, at once if there are no other nodes.
void Endpoint::WithAll::await_suspend(std::coroutine_handle<> waiting) const {
  me.site_.lined_up.emplace_back(&me, waiting);
  if (me.site_.lined_up.size() == me.world_.ranks.size()) me.site_.engine.end_window();
}

Task<> Endpoint::line_up() {
  if (!calls_.empty()) co_await catch_up();
  node_.drain(core_);
  co_await settle();
  lining_up_ = true;
  co_await WithAll{*this};
  lining_up_ = false;
}

// ---- items

Item* Endpoint::make_item(Message& message, Step step) {
  Item* const item = site_.items.take();
  *item = Item{};
  item->message = &message;
  item->step = step;
  item->owner = this;
  return item;
}

void Endpoint::deliver(Item* item) {
  const auto act = [](void* what) {
    auto* const its = static_cast<Item*>(what);
    its->owner->push(its);
  };
  site_.engine.at(std::max(item->visible.first(), site_.engine.now()), act, item);
}

void Endpoint::push(Item* item) {
  inbox_.push(item);
  if (sleeper_) std::exchange(sleeper_, {}).resume();
}

void Endpoint::tell(Endpoint& other, Item* item, Address line) {
  item->line = line ? line : other.next_line(rank_);
  item->owner = &other;
  node_.drain(core_);  // what it says must have been written
  node_.access(core_, Access::store, item->line, 8);
  item->visible = now();
  deliver(item);
}

Address Endpoint::next_line(int from) {
  Peer& sender = peer(from);
  const std::uint64_t bytes = line_bytes(world_.machine);
  if (sender.lines == 0) sender.lines = node_.allocate(core_, lines_per_queue * bytes);
  return sender.lines + sender.next_line++ % lines_per_queue * bytes;
}

void Endpoint::look_at(const Item& item) {
  if (item.of_nic) return nic_->poll(core_, item.line, item.visible);
  node_.wait_until(core_, item.visible);
  if (item.line) node_.access(core_, Access::chase, item.line, 8);
}

// Handles the next item when it is there.
Task<> Endpoint::go_on() {
  co_await settle();
  Item* const item = co_await NextItem{*this};
  if (!item) co_return;
  Message& message = *item->message;
  look_at(*item);
  handled_ = item;
  if (item->step == Step::arrived) {
    advance(match_);
    message.receive = match(message, item->visible);
    if (message.receive) co_await message.protocol->matched(*this, message);
  } else if (item->step == Step::matched) {
    co_await message.protocol->matched(*this, message);
  } else {
    co_await message.protocol->step(*this, message, *item);
  }
  handled_ = nullptr;
  site_.items.give(item);
  if (!background_.empty()) co_await carry_on();
}

// ---- protocols

Task<> Endpoint::copy(const Buffer& to, std::uint64_t to_offset, const Buffer& from, std::uint64_t from_offset,
                      std::uint64_t bytes) {
  return in_slices(bytes, [this, to, to_offset, from, from_offset](std::uint64_t offset, std::uint64_t part) {
    node_.copy(core_, to, to_offset + offset, from, from_offset + offset, part);
  });
}

Address Endpoint::packed(Message& message) {
  if (message.data.contiguous() || message.bytes == 0) return message.data.address;
  message.staged_out = scratch_.take(message.bytes);
  copy_now(Buffer(message.staged_out, message.bytes), message.data, message.bytes);
  return message.staged_out;
}

void Endpoint::give_packed(Message& message) {
  if (message.staged_out) scratch_.give(message.staged_out, message.bytes);
}

Address Endpoint::landing(Operation& receive, std::uint64_t bytes) {
  if (receive.buffer.contiguous() || bytes == 0) return receive.buffer.address;
  receive.packed = scratch_.take(bytes);
  return receive.packed;
}

Task<> Endpoint::unpack(Operation& receive, std::uint64_t bytes) {
  if (!receive.packed) co_return;
  co_await copy(receive.buffer, 0, Buffer(receive.packed, bytes), 0, bytes);
  scratch_.give(receive.packed, bytes);
}

void Endpoint::complete(Operation*& operation) {
  operation->done = true;
  operation->ready = now();
  if (handled_) {
    const Clock& sent = handled_->message->sent;
    const bool receives = operation->kind == Operation::Kind::receive;
    operation->ready = estimate(receives ? later(sent, operation->posted) : sent, handled_->visible);
  }
  operation = nullptr;
}

Shipment Endpoint::shipment(Message& message) {
  Shipment shipment;
  shipment.message = &message;
  shipment.from = this;
  shipment.to = message.from == this ? message.to : message.from;
  shipment.command = nic_->post(core_);
  return shipment;
}

std::string Endpoint::waits_for() const {
  const std::string me =
      "rank " + std::to_string(rank_) + " waits " + (in_call_ ? "in " + *in_call_ + " " : "") + "for ";
  if (waits_for_any_) return me + "one of several requests";
  if (polling_) return me + "something to come, and looks for it again and again";
  if (lining_up_) return me + "all ranks to line up";
  const Pattern* const pattern = probing_ ? probing_ : waiting_for_;
  if (!pattern) return "";
  const std::string peer = pattern->peer == any_rank ? "any rank" : "rank " + std::to_string(pattern->peer);
  const std::string tag = pattern->tag == any_tag ? "" : " with tag " + std::to_string(pattern->tag);
  if (probing_) return me + "a message from " + peer + tag;
  const std::string bytes = std::to_string(waiting_for_->buffer.bytes()) + " bytes";
  if (waiting_for_->kind == Operation::Kind::send) return me + peer + " to receive " + bytes + tag;
  return me + bytes + " from " + peer + tag;
}

}  // namespace nearfield::sim
