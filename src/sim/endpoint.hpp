// The MPI library of one rank: matching, waiting, and what protocols do on its core. Everything that other ranks see of
// it goes through the engine in the order of time; what it does itself may be ahead of the engine, and it waits for the
// engine before it looks at what has come (settle).
#pragma once

#include <coroutine>
#include <deque>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "sim/node.hpp"
#include "sim/protocols/scratch.hpp"
#include "sim/rank.hpp"
#include "sim/site.hpp"
#include "sim/tally.hpp"

namespace nearfield::sim {

class Nic;  // nic/nic.hpp

// Work of a rank that goes on while its program waits for anything: a nonblocking collective. It must outlive its rank's
// run, or be waited for.
struct Background {
  Task<> work;
  std::coroutine_handle<> inside, outside;  // where it goes on, and where its rank does when it waits or is over
  const Operation* waits_for = nullptr;
  bool over = false;
  std::exception_ptr failure;
};

class Endpoint {
 public:
  // `nic`: none in a run of one node. `alone`: there is no other rank on the node.
  Endpoint(Site& site, Node& node, Nic* nic, int rank, int core, bool alone);

  World& world() { return world_; }
  Site& site() { return site_; }
  Node& node() { return node_; }
  bool has_nic() const { return nic_; }
  Nic& nic() { return *nic_; }
  int rank() const { return rank_; }
  int core() const { return core_; }
  int node_number() const { return site_.number; }
  const Messaging& messaging() const { return world_.machine.messaging; }
  Rank& facade() { return facade_; }
  std::vector<Mark>& marks() { return marks_; }
  const TimeInCalls& in_calls() const { return in_calls_; }
  void reset_in_calls();

  Clock now() const { return node_.now(core_); }
  Ps first() const { return node_.first(core_); }
  void advance(Ps duration) { node_.advance(core_, duration); }
  // Returns an awaitable that goes on when the engine has got to this rank's clock.
  Engine::Until settle() { return site_.engine.until(first()); }

  // ---- for programs (rank.hpp). Sends, receives and computing are done at once if nobody else has anything to do
  // before; else when the program next waits for something (catch_up), or would notice (hurry).
  Request send(const Pattern& to, const Buffer& data, bool synchronous = false);
  // With `asked`, which may have any_rank and any_tag, the receive takes messages of `from`, but it is counted whether
  // there were others that it would have taken as it was asked.
  // `told`: on_match() is called with this number.
  Request receive(const Pattern& from, const Buffer& buffer, const std::optional<Pattern>& asked = {},
                  std::uint64_t told = 0);
  // Is called when a receive gets its message: with its number, and the message's sender and tag.
  using OnMatch = std::function<void(std::uint64_t told, int from, int tag)>;
  void on_match(OnMatch call) { on_match_ = std::move(call); }
  void compute(Ps duration) { call({nullptr, duration}); }
  Task<> catch_up();
  void hurry();
  Task<> wait(Request request);
  // Waits until there is a message for which no receive is posted. With `asked`, the program would have seen messages of
  // `asked` as well, and `waited` for one or not: that is tallied.
  Task<> probe(const Pattern& pattern, const std::optional<Pattern>& asked = {}, bool waited = true);
  // The same for a program that began to look at `since` already.
  Task<> probed(const Pattern& pattern, const std::optional<Pattern>& asked, bool waited, Clock since);
  // Returns the oldest message without a receive that the pattern takes; nullptr if there is none.
  const Message* there(const Pattern& pattern) { return unexpected(pattern); }
  // Tallies that the program asked and was told that there is no such message; and that this made no difference.
  void probed_in_vain(const Pattern& asked) { chosen({asked, any_rank, posted_ + 1, now() + 1, 0, true}, nullptr); }
  void forget_probe_in_vain();
  // Does what can be done without waiting, as MPI_Test does.
  Task<> look();
  // Waits for what comes next for this rank, and does what is to be done with it.
  Task<> next_item();
  // Waits until anything has come for this rank. If nothing is left to happen anywhere, it goes on as well (release).
  Task<> something();
  bool may_be_released() const { return polling_ && sleeper_ && released_ < most_released; }
  void release(Ps when);
  // Begins work that the rank does beside its program, and does it until it first waits.
  Task<> begin(Background& work);
  Task<> wait(Background& work);
  // Is called by such work.
  Task<> wait(Background& work, Request request);
  // Returns how many receives could have taken another message than was imposed.
  std::uint64_t contested() const { return contested_; }
  // Outcomes that time decides.
  Tally& tally() { return tally_; }
  // Returns when the rank could have seen first that what it waited for last was done.
  const Clock& ready() const { return ready_; }
  // Says which call of MPI the program is in, for waits_for(); nullptr: in none. The text must live until the next call.
  void in_call(const std::string* name) { in_call_ = name; }
  Task<> line_up();
  // Returns the bytes of work after which others get their turn.
  std::uint64_t slice_bytes() const { return slice_bytes_; }
  // Works on `bytes` in such slices; `slice(offset, bytes)` does each.
  template <class Slice>
  Task<> in_slices(std::uint64_t bytes, Slice slice) {
    if (!calls_.empty()) co_await catch_up();
    for (std::uint64_t offset = 0; offset < bytes && node_.has_memory(); offset += slice_bytes_) {
      slice(offset, std::min(slice_bytes_, bytes - offset));
      co_await settle();
    }
  }

  // ---- for protocols, on this rank's core
  Task<> copy(const Buffer& to, std::uint64_t to_offset, const Buffer& from, std::uint64_t from_offset,
              std::uint64_t bytes);
  // Copies at once, in send().
  void copy_now(const Buffer& to, const Buffer& from, std::uint64_t bytes) { node_.copy(core_, to, 0, from, 0, bytes); }
  // Returns where a message's data is in one piece: itself, or a copy of its blocks that give_packed() frees.
  Address packed(Message& message);
  void give_packed(Message& message);
  // Returns where data of a receive arrives in one piece; unpack() then copies it into the blocks of its buffer.
  Address landing(Operation& receive, std::uint64_t bytes);
  Task<> unpack(Operation& receive, std::uint64_t bytes);
  // Ends the operation, so that the rank's program goes on if it waits for it.
  void complete(Operation*& operation);
  // The operation is over, and this side needs the message no more.
  void finish(Message& message, Operation*& operation) {
    complete(operation);
    site_.drop(message);
  }
  // Posts a command to the NIC, and returns the shipment to the other side of the message that it is for.
  Shipment shipment(Message& message);
  // Internal buffers of this rank.
  Scratch& scratch() { return scratch_; }

  // Writes an item into the memory that both ranks of a node share, where the other one polls. `line`: 0 for the next
  // one of the queue between the two.
  void tell(Endpoint& other, Item* item, Address line = 0);
  Item* make_item(Message& message, Step step);
  // Delivers an item, which the rank finds when it polls, from Item::visible on.
  void deliver(Item* item);
  void push(Item* item);
  // Returns the receive that a message is for that comes at `visible`, or nullptr; then it is kept until there is one.
  Operation* match(Message& message, const Clock& visible);

  // ---- for who runs it
  // Returns what the rank waits for; empty if it waits for nothing.
  std::string waits_for() const;

 private:
  struct Peer {
    List<Operation> posted;  // that name this peer
    List<Message> unexpected;
    std::uint64_t sent = 0, arrived = 0;  // messages to it, and from it
    Address lines = 0;                    // what it writes into for this rank to poll
    std::uint64_t next_line = 0;
  };
  struct NextItem {
    Endpoint& me;
    bool await_ready() const { return !me.inbox_.empty(); }
    void await_suspend(std::coroutine_handle<> waiting) const { me.sleeper_ = waiting; }
    Item* await_resume() const { return me.inbox_.empty() ? nullptr : me.inbox_.pop(); }  // none: look again
  };
  struct WithAll {
    Endpoint& me;
    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> waiting) const;
    void await_resume() const {}
  };

  // A call of the program that is not done yet.
  struct Call {
    Operation* operation = nullptr;  // or, without one:
    Ps duration = 0;
  };

  // A message that a receive or a probe got, or would have got before `limit`.
  struct Chosen {
    Pattern asked;
    int from;
    std::uint64_t number;  // receives with lower ones were posted before
    Clock limit;
    OnClocks otherwise = 0;
    bool in_vain = false;
  };
  static constexpr std::size_t most_recent = 32;
  static constexpr int most_released = 1000;  // a program that looks more often in vain does nothing else

  Peer& peer(int rank) { return peers_[rank]; }
  Endpoint& other(int rank) { return *world_.ranks[static_cast<std::size_t>(rank)]; }
  Operation& made(Operation::Kind kind, const Pattern& pattern, const Buffer& buffer);
  void call(const Call& call);
  void perform(const Call& call);
  void perform_send(Operation& operation);
  void perform_receive(Operation& operation);
  void fits(const Message& message, const Operation& receive) const;
  // Returns the oldest message without a receive that the pattern takes, among its peer's.
  Message* unexpected(const Pattern& pattern);
  Operation* take_posted(const Message& message);
  void impose(Operation& receive);
  void contest(const Message& message);
  void contested(Operation& receive);
  // Tallies a choice among the messages that are there, and among those that come later, but earlier on other clocks.
  void chosen(Chosen choice, const Message* own);
  void reconsider(const Message& message, const Operation* receive);
  Task<> go_on();
  void tell_match(const Operation& receive, const Message& message) const {
    if (receive.told && on_match_) on_match_(receive.told, message.from->rank_, message.tag);
  }
  Task<> carry_on();
  void release(Operation& operation);
  void look_at(const Item& item);
  Address next_line(int from);

  Site& site_;
  World& world_;
  Node& node_;
  Nic* nic_;
  int rank_, core_;
  Rank facade_;
  Scratch scratch_;
  std::unordered_map<int, Peer> peers_;
  List<Operation> posted_to_any_;  // receives that name no peer
  std::uint64_t posted_ = 0, arrived_ = 0;
  std::vector<Operation*> imposed_;  // that have no message yet
  std::uint64_t contested_ = 0;
  Tally tally_;
  std::deque<Chosen> recent_;  // choices
  const Item* handled_ = nullptr;
  Clock ready_;
  std::vector<Background*> background_;
  std::vector<Call> calls_;
  List<Item> inbox_;
  std::coroutine_handle<> sleeper_;
  const Operation* waiting_for_ = nullptr;
  const Pattern* probing_ = nullptr;
  const std::string* in_call_ = nullptr;
  bool lining_up_ = false;
  bool waits_for_any_ = false;  // in next_item()
  bool polling_ = false;        // in something()
  int released_ = 0;            // so often in a row
  OnMatch on_match_;
  std::vector<Mark> marks_;
  TimeInCalls in_calls_;
  Ps send_, receive_, match_;
  std::uint64_t slice_bytes_;
};

}  // namespace nearfield::sim
