// Do all messages arrive whole, once and in order? Every rank derives the same random list of messages from SEED, in
// rounds. In a round each (communicator, receiver) has one way of receiving: posted before (exactly, with wildcards,
// persistent) or after the senders have begun (Recv, the four kinds of probe). Senders block only towards receives that
// are posted, so there is no deadlock under any eager limit. What a message holds is a function of (SEED, its number).
//
// argv: SEED COUNT. Prints one line per rank: `rank R of N: M messages, B bytes, digest D ok`. The digest does not
// depend on the order in which messages of different senders come. Anything wrong: a line on stderr, MPI_Abort.
//
// Which message a receive with wildcards should have got: from each sender, receives with the same pattern take
// messages in the order in which they were sent, because MPI forbids overtaking. Patterns that are in use at once on
// one communicator are either the same or disjoint.
#include "messages.hpp"

#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <list>
#include <utility>
#include <vector>

namespace {

// ---- the list of messages

int some_size(Random& random) {
  const int exponent = random.below(24);  // 23: nothing
  if (exponent == 23) return 0;
  const int power = 1 << exponent;
  const int size = random.below(3) == 0 ? power + random.below(power) : power - 1 + random.below(3);
  return std::min(size, largest);
}

Take take_of(int round, int comm, int to) {
  return static_cast<Take>(Random{state_of(3, static_cast<std::uint64_t>((round * 8 + comm) * 64 + to))}.below(takes));
}

Give some_give(Random& random, const Message& m) {
  auto give = static_cast<Give>(random.below(gives));
  if (!is_posted_before(take_of(m.round, m.comm, m.to)) && needs_posted(give)) give = Give::isend;
  const bool is_buffered = give == Give::bsend || give == Give::ibsend;
  return is_buffered && m.size > max_buffered ? Give::isend : give;
}

std::vector<Message> all_messages(int count) {
  const int tags[] = {0, 1, 2, 77, 32767};
  Random random{state_of(4, 0)};
  std::vector<Message> messages;
  for (int i = 0; i < count; ++i) {
    Message m{i, i / per_round, random.below(communicators), random.below(ranks), random.below(ranks), 0,
              0, Give::send};
    if (m.comm == 2 && (m.from - m.to) % 2) m.to = m.from;
    m.tag = tags[random.below(5)];
    m.size = some_size(random);
    m.give = some_give(random, m);
    messages.push_back(m);
  }
  return messages;
}

// ---- receiving

struct Receive {
  Message* first;  // the message that it was made for; with wildcards another may come
  Take take;
  Layout layout;
  Bytes memory;
  MPI_Request request = MPI_REQUEST_NULL;
};

bool has_wild_source(Take take) { return take == Take::any_source || take == Take::any; }
bool has_wild_tag(Take take) { return take == Take::any_tag || take == Take::any; }

// The earliest of those sent by `from` that fits and has not come yet.
Message& expected(std::vector<Message*>& incoming, const Message& like, bool wild_tag, int from, int tag) {
  for (Message* m : incoming)
    if (!m->arrived && m->comm == like.comm && m->from == from && (wild_tag || m->tag == tag)) return *m;
  fail("a message that nobody sent", like, from);
}

void check_status(const MPI_Status& status, MPI_Datatype type, int unit, const Message& m) {
  int count = 0;
  MPI_Get_count(&status, type, &count);
  if (status.MPI_TAG != m.tag) fail("wrong tag", m, status.MPI_TAG);
  if (status.MPI_SOURCE != rank_in(m.comm, m.from)) fail("wrong source", m, status.MPI_SOURCE);
  if (static_cast<long long>(count) * unit != m.size) fail("wrong size", m, static_cast<long long>(count) * unit);
}

void accept(Message& m, const MPI_Status& status, Bytes& memory, Layout& layout) {
  check_status(status, layout.type, layout.type == MPI_BYTE ? 1 : m.size, m);
  m.arrived = true;
  verify(memory, layout, m);
}

int largest_that_fits(const std::vector<Message*>& incoming, const Message& like, Take take) {
  int size = 0;
  for (const Message* m : incoming)
    if (m->comm == like.comm && (has_wild_source(take) || m->from == like.from) &&
        (has_wild_tag(take) || m->tag == like.tag))
      size = std::max(size, m->size);
  return size;
}

void post(Receive& r, const std::vector<Message*>& incoming) {
  const Message& m = *r.first;
  const bool is_alone = std::count_if(incoming.begin(), incoming.end(), [&](const Message* other) {
                          return other->comm == m.comm && other->from == m.from && other->tag == m.tag;
                        }) == 1;
  const bool size_is_known = is_alone && !has_wild_source(r.take) && !has_wild_tag(r.take);
  r.layout = size_is_known ? some_layout(m.size, state_of(5, static_cast<std::uint64_t>(m.number)))
                           : contiguous(largest_that_fits(incoming, m, r.take));
  r.memory.assign(static_cast<std::size_t>(r.layout.extent) + 1, 0xee);
  const int from = has_wild_source(r.take) ? MPI_ANY_SOURCE : rank_in(m.comm, m.from);
  const int tag = has_wild_tag(r.take) ? MPI_ANY_TAG : m.tag;
  if (r.take == Take::persistent) {
    MPI_Recv_init(r.memory.data(), r.layout.count, r.layout.type, from, tag, comms[m.comm], &r.request);
    MPI_Start(&r.request);
  } else {
    MPI_Irecv(r.memory.data(), r.layout.count, r.layout.type, from, tag, comms[m.comm], &r.request);
  }
}

// In the order of posting, whatever the order of completion.
void finish(Receive& r, const MPI_Status& status, std::vector<Message*>& incoming) {
  const int from = world_of(r.first->comm, status.MPI_SOURCE);
  Message& m = expected(incoming, *r.first, has_wild_tag(r.take), from, status.MPI_TAG);
  if (r.layout.type == MPI_BYTE) {
    r.layout = contiguous(m.size);
    check_status(status, MPI_BYTE, 1, m);
  }
  accept(m, status, r.memory, r.layout);
  free_layout(r.layout);
  if (r.take == Take::persistent) MPI_Request_free(&r.request);
}

void finish_all(std::list<Receive>& receives, std::vector<Message*>& incoming) {
  std::vector<MPI_Request> requests;
  for (const Receive& r : receives) requests.push_back(r.request);
  std::vector<MPI_Status> statuses(requests.size());
  MPI_Waitall(static_cast<int>(requests.size()), requests.data(), statuses.data());
  std::size_t i = 0;
  for (Receive& r : receives) {
    r.request = requests[i];
    finish(r, statuses[i++], incoming);
  }
}

// A message that was not posted: found first, by a probe, or received as it is.
void take_late(const Message& wanted, Take take, std::vector<Message*>& incoming) {
  MPI_Comm comm = comms[wanted.comm];
  MPI_Message handle = MPI_MESSAGE_NULL;
  MPI_Status found, status;
  const int from = rank_in(wanted.comm, wanted.from);
  int flag = 0;
  found.MPI_SOURCE = from;
  found.MPI_TAG = wanted.tag;
  if (take == Take::probe) MPI_Probe(from, wanted.tag, comm, &found);
  if (take == Take::mprobe) MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &handle, &found);
  while (take == Take::iprobe && !flag) {
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, &found);
    if (!flag) sched_yield();
  }
  while (take == Take::improbe && !flag) {
    MPI_Improbe(from, MPI_ANY_TAG, comm, &flag, &handle, &found);
    if (!flag) sched_yield();
  }
  const bool wild = take == Take::mprobe || take == Take::iprobe || take == Take::improbe;
  Message& m = expected(incoming, wanted, wild, world_of(wanted.comm, found.MPI_SOURCE), found.MPI_TAG);
  if (take != Take::late) check_status(found, MPI_BYTE, 1, m);
  Layout layout = some_layout(m.size, state_of(5, static_cast<std::uint64_t>(m.number)));
  Bytes memory(static_cast<std::size_t>(layout.extent) + 1, 0xee);
  if (handle != MPI_MESSAGE_NULL)
    MPI_Mrecv(memory.data(), layout.count, layout.type, &handle, &status);
  else
    MPI_Recv(memory.data(), layout.count, layout.type, found.MPI_SOURCE, found.MPI_TAG, comm, &status);
  accept(m, status, memory, layout);
  free_layout(layout);
}

// Before anything is sent in a round: a receive that would fit, and one that nothing ever fits.
void cancel_some(const std::vector<Message*>& incoming) {
  unsigned char never[64];
  std::vector<std::pair<MPI_Comm, int>> patterns{{comms[0], unused_tag}};
  if (!incoming.empty()) patterns.push_back({comms[incoming[0]->comm], incoming[0]->tag});
  for (const auto& [comm, tag] : patterns) {
    MPI_Request request;
    MPI_Status status;
    int is_cancelled = 0;
    MPI_Irecv(never, sizeof never, MPI_BYTE, MPI_ANY_SOURCE, tag, comm, &request);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &is_cancelled);
    if (!is_cancelled) fail("a receive was not cancelled", Message{-1, -1, 0, own, own, tag, 0, Give::send});
  }
}

// ---- sending

struct Sending {
  Layout layout;
  Bytes memory;
  MPI_Request request = MPI_REQUEST_NULL;
};

void send(const Message& m, Sending& s) {
  s.layout = some_layout(m.size, state_of(6, static_cast<std::uint64_t>(m.number)));
  s.memory = spread(content(m), s.layout);
  const void* at = s.memory.data();
  const int n = s.layout.count, to = rank_in(m.comm, m.to), tag = m.tag;
  const MPI_Datatype type = s.layout.type;
  const MPI_Comm comm = comms[m.comm];
  switch (m.give) {
    case Give::send:
      MPI_Send(at, n, type, to, tag, comm);
      break;
    case Give::ssend:
      MPI_Ssend(at, n, type, to, tag, comm);
      break;
    case Give::rsend:
      MPI_Rsend(at, n, type, to, tag, comm);
      break;
    case Give::bsend:
      MPI_Bsend(at, n, type, to, tag, comm);
      break;
    case Give::isend:
      MPI_Isend(at, n, type, to, tag, comm, &s.request);
      break;
    case Give::issend:
      MPI_Issend(at, n, type, to, tag, comm, &s.request);
      break;
    case Give::irsend:
      MPI_Irsend(at, n, type, to, tag, comm, &s.request);
      break;
    case Give::ibsend:
      MPI_Ibsend(at, n, type, to, tag, comm, &s.request);
      break;
    case Give::persistent:
      MPI_Send_init(at, n, type, to, tag, comm, &s.request);
      break;
    case Give::persistent_ssend:
      MPI_Ssend_init(at, n, type, to, tag, comm, &s.request);
      break;
  }
  if (m.give >= Give::persistent) MPI_Start(&s.request);
}

void finish(const Message& m, Sending& s) {
  MPI_Wait(&s.request, MPI_STATUS_IGNORE);
  if (m.give >= Give::persistent) MPI_Request_free(&s.request);
  free_layout(s.layout);
}

// ---- all at once: Sendrecv around a ring, and persistent requests that are started again in every round

Message ring_message(int round, int kind, int from, int to) {
  Random random{state_of(7, static_cast<std::uint64_t>((round * 4 + kind) * 64 + from))};
  return {1000000 + (round * 4 + kind) * 64 + from, round, 0, from, to, ring_tag + kind, some_size(random), Give::send};
}

void exchange_around(int round, int kind) {
  const int step =
      static_cast<int>(state_of(8, static_cast<std::uint64_t>(round * 4 + kind)) % static_cast<unsigned>(ranks));
  const int right = (own + step) % ranks, left = (own - step + ranks) % ranks;
  Message out = ring_message(round, kind, own, right), in = ring_message(round, kind, left, own);
  MPI_Status status;
  Layout layout = contiguous(in.size);
  Bytes sent = content(out);
  sent.resize(static_cast<std::size_t>(std::max(out.size, in.size)) + 1, 0xee);
  Bytes memory(static_cast<std::size_t>(in.size) + 1, 0xee);
  if (kind == 0) {
    MPI_Sendrecv(sent.data(), out.size, MPI_BYTE, right, out.tag, memory.data(), in.size, MPI_BYTE, left, in.tag,
                 ring_communicator, &status);
  } else {  // one size for all, rank 0's
    const int size = ring_message(round, kind, 0, 0).size;
    out.size = in.size = size;
    layout = contiguous(size);
    memory = content(out);
    memory.push_back(0xee);
    MPI_Sendrecv_replace(memory.data(), size, MPI_BYTE, right, out.tag, left, in.tag, ring_communicator, &status);
  }
  accept(in, status, memory, layout);
}

struct Standing {
  Bytes out, in;
  MPI_Request requests[2];
  int right = (own + 1) % ranks, left = (own - 1 + ranks) % ranks, kind = 2;

  void open(int which) {
    kind = which;
    const Message sent = ring_message(0, kind, own, right), taken = ring_message(0, kind, left, own);
    out.resize(static_cast<std::size_t>(sent.size) + 1);
    in.resize(static_cast<std::size_t>(taken.size) + 1);
    MPI_Recv_init(in.data(), taken.size, MPI_BYTE, left, taken.tag, ring_communicator, &requests[0]);
    (kind == 2 ? MPI_Send_init : MPI_Ssend_init)(out.data(), sent.size, MPI_BYTE, right, sent.tag, ring_communicator,
                                                 &requests[1]);
  }

  // The values change from round to round, their addresses do not.
  void turn(int round) {
    Message sent = ring_message(0, kind, own, right), taken = ring_message(0, kind, left, own);
    sent.number += 10000000 * (round + 1);
    taken.number += 10000000 * (round + 1);
    const Bytes bytes = content(sent);
    std::copy(bytes.begin(), bytes.end(), out.begin());
    std::fill(in.begin(), in.end(), static_cast<unsigned char>(0xee));
    MPI_Status statuses[2];
    MPI_Startall(2, requests);
    MPI_Waitall(2, requests, statuses);
    Layout layout = contiguous(taken.size);
    verify(in, layout, taken);
  }

  void close() {
    for (MPI_Request& request : requests) MPI_Request_free(&request);
  }
};

// ---- a round

void run_round(int round, std::vector<Message>& messages) {
  std::vector<Message*> incoming, outgoing;
  for (Message& m : messages) {
    if (m.round != round) continue;
    if (m.to == own) incoming.push_back(&m);
    if (m.from == own) outgoing.push_back(&m);
  }
  cancel_some(incoming);
  std::list<Receive> posted;
  for (Message* m : incoming)
    if (const Take take = take_of(round, m->comm, own); is_posted_before(take))
      post(posted.emplace_back(Receive{m, take, {}, {}}), incoming);
  MPI_Barrier(MPI_COMM_WORLD);

  std::list<Sending> sendings;
  for (const Message* m : outgoing) send(*m, sendings.emplace_back());
  for (Message* m : incoming)
    if (const Take take = take_of(round, m->comm, own); !is_posted_before(take)) take_late(*m, take, incoming);
  finish_all(posted, incoming);
  auto sending = sendings.begin();
  for (const Message* m : outgoing) finish(*m, *sending++);
  for (const Message* m : incoming)
    if (!m->arrived) fail("never came", *m);
  exchange_around(round, 0);
  exchange_around(round, 1);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &own);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  seed = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1;
  const int count = argc > 2 ? std::atoi(argv[2]) : 1200;
  make_communicators();
  std::vector<Message> messages = all_messages(count);
  Standing standing[2];
  standing[0].open(2);
  standing[1].open(3);
  const int rounds = (count + per_round - 1) / per_round;
  Bytes buffer(static_cast<std::size_t>(per_round) * (max_buffered + MPI_BSEND_OVERHEAD) + (1 << 16));
  for (int round = 0; round < rounds; ++round) {
    MPI_Buffer_attach(buffer.data(), static_cast<int>(buffer.size()));
    run_round(round, messages);
    void* detached;
    int size;
    MPI_Buffer_detach(&detached, &size);
    for (Standing& one : standing) one.turn(round);
  }
  for (Standing& one : standing) one.close();
  MPI_Comm_free(&ring_communicator);
  for (MPI_Comm& comm : comms) MPI_Comm_free(&comm);
  std::printf("rank %d of %d: %llu messages, %llu bytes, digest %016llx ok\n", own, ranks,
              static_cast<unsigned long long>(n_messages), static_cast<unsigned long long>(n_bytes),
              static_cast<unsigned long long>(digest));
  MPI_Finalize();
}
