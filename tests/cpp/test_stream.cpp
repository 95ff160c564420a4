// Does a reader of a stream get back what was recorded, to the last byte, and are broken streams refused?
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <span>
#include <string>

#include "check.hpp"
#include "preload/observe/file.hpp"
#include "preload/observe/process_stream.hpp"
#include "trace/stream/encoder.hpp"
#include "trace/stream/event_bytes.hpp"
#include "trace/stream/reader.hpp"

namespace {

using namespace nearfield;
using namespace nearfield::stream;

// What happened: an access, or an event if it has no bytes.
struct Happened {
  std::uint64_t address = 0, bytes = 0;
  SiteKind kind = load1;
  std::uint64_t code = 0;
  std::string event;
  bool operator==(const Happened&) const = default;
};

void* memory(std::uint64_t bytes) {
  return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

// The dependences that the encoder has reported: the code location of the load, and that of its cause.
std::vector<std::pair<std::uint64_t, std::uint64_t>> dependences;

// Records into folder/rank-0.nfs, and keeps what it recorded.
class Recording {
 public:
  explicit Recording(const std::string& folder) {
    CHECK(observe::open_stream_file(folder.c_str()));
    const auto place = [](std::uint64_t code, std::uint64_t& offset) { return offset = code, code >> 32; };
    const auto depends = [](std::uint64_t code, std::uint64_t producer) { dependences.emplace_back(code, producer); };
    dependences.clear();
    encoder_.start({memory, place, depends, observe::platform::write_chunk});
  }
  void load(std::uint64_t code, std::uint64_t address, std::uint64_t value) {
    encoder_.encode_load({code, load8}, address, value);
    all.push_back({address, 8, load8, code, ""});
  }
  void access(std::uint64_t code, SiteKind kind, std::uint64_t address) {
    encoder_.encode_access({code, kind}, address);
    all.push_back({address, access_bytes_of(kind), kind, code, ""});
  }
  void range(std::uint64_t code, SiteKind kind, std::uint64_t address, std::uint64_t bytes) {
    encoder_.encode_range({code, kind}, address, bytes);
    all.push_back({address, bytes, kind, code, ""});
  }
  void text(const std::string& is) {
    const auto& bytes = writer_.serialize(Text{all.size(), is});
    encoder_.encode_event(bytes.data(), bytes.size());
    all.push_back({all.size(), 0, load1, 0, is});
  }
  void event(const Dependence& event) {
    const auto& bytes = writer_.serialize(event);
    encoder_.encode_event(bytes.data(), bytes.size());
  }
  void finish_chunk() { encoder_.finish_chunk(); }
  void close() {
    encoder_.finish_chunk();
    observe::assign_rank_to_stream(0, 1);
    observe::close_stream_file();
    CHECK(encoder_.num_accesses() ==
          static_cast<std::uint64_t>(std::count_if(all.begin(), all.end(), [](auto& h) { return h.bytes > 0; })));
  }

  std::vector<Happened> all;

 private:
  Encoder encoder_;
  EventWriter writer_;
};

std::vector<Happened> read_back(const std::string& path) {
  std::vector<Happened> all;
  StreamReader reader(path);
  std::array<Reference, 100> batch;
  while (true) {
    while (const auto count = reader.read_accesses(batch))
      for (const auto& r : std::span(batch).first(count)) {
        const Site& site = reader.sites()[r.site];
        CHECK(site.object == site.offset >> 32 && is_store(site.kind) == r.is_store);
        if (!all.empty() && r.bytes > 0 && all.back().code == site.offset && is_range(site.kind) &&
            all.back().bytes % (1 << 30) == 0 && all.back().address + all.back().bytes == r.address)
          all.back().bytes += r.bytes;  // a part of a range of more than 1 GiB
        else
          all.push_back({r.address, r.bytes, static_cast<SiteKind>(site.kind), site.offset, ""});
      }
    const Event* const event = reader.next_event();
    if (!event) return all;
    all.push_back({std::get<Text>(*event).string_id, 0, load1, 0, std::get<Text>(*event).content});
  }
}

// Nested loops over arrays, gathers that repeat, jumps anywhere, ranges and events, in any order.
void live(Recording& to, std::mt19937_64& random, int loops) {
  const auto any = [&](std::uint64_t below) { return random() % below; };
  std::vector<std::uint64_t> index(1 + any(20000));
  for (auto& one : index) one = any(1000);
  for (int loop = 0; loop < loops; ++loop) {
    const std::uint64_t sites = 1 + any(6), first = any(40), inner = 1 + any(300), outer = 1 + any(30);
    std::array<std::uint64_t, 6> base;
    std::array<std::int64_t, 6> stride;
    for (std::size_t s = 0; s < 6; ++s)
      base[s] = any(std::uint64_t{1} << 46), stride[s] = static_cast<int>(any(64)) - 32;
    for (std::uint64_t i = 0; i < outer; ++i)
      for (std::uint64_t j = 0; j < inner; ++j)
        for (std::uint64_t s = 0; s < sites; ++s) {
          const bool alike = loop % 4 == 0;  // sites that a table by their last bits mistakes for each other
          const auto kind = alike ? load8 : static_cast<SiteKind>((first + s) % load_range);
          const std::uint64_t code = 0x1000 * (first + 1 + s) + (alike ? 7 : 5 * s + (any(400) == 0));
          const std::uint64_t n = i * inner + j;
          const std::uint64_t at = s == 2 ? base[s] + 8 * index[n % index.size()]
                                          : base[s] + (n + 100 * i) * static_cast<std::uint64_t>(stride[s]);
          to.access((any(2) << 32) * (s == 5) + code, kind, at);
        }
    if (any(3) == 0) to.range(7 + any(3), any(2) ? store_range : load_range, any(1 << 30), 1 + any(5000));
    if (any(3) == 0) to.text(std::string(any(50), 'x'));
  }
  to.range(9, load_range, 1, (std::uint64_t{3} << 30) + 5);
  for (int n = 0; n < 1000000; ++n) to.access(77, store8, random() >> 17);  // more than a chunk
}

struct Folder {
  Folder() {
    char name[] = "/tmp/nearfield-stream-XXXXXX";
    path = mkdtemp(name);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string path;
};

void what_is_recorded_is_read() {
  for (unsigned seed = 0; seed < 4; ++seed) {
    const Folder folder;
    std::mt19937_64 random(seed);
    Recording recording(folder.path);
    live(recording, random, 60);
    recording.close();
    CHECK(read_back(folder.path + "/rank-0.nfs") == recording.all);
  }
}

// A sweep that repeats costs a tenth of a byte for each access, whatever it gathers; less where libzstd is found.
void repetition_is_nearly_free() {
  const Folder folder;
  std::mt19937_64 random(1);
  std::vector<std::uint64_t> columns(100000);
  for (auto& column : columns) column = 8 * (random() % 1000);
  Recording recording(folder.path);
  for (int sweep = 0; sweep < 20; ++sweep)
    for (std::uint64_t k = 0; k < columns.size(); ++k) {
      recording.access(1, load8, 0x1000000 + 8 * k);
      recording.access(2, load4, 0x8000000 + 4 * k);
      recording.access(3, load8, 0x200000 + columns[k]);
    }
  recording.close();
  const auto bytes = std::filesystem::file_size(folder.path + "/rank-0.nfs");
  CHECK(9 * bytes < 20 * 3 * columns.size() && read_back(folder.path + "/rank-0.nfs") == recording.all);
}

bool is_refused(const std::string& path) {
  try {
    read_back(path);
  } catch (const BrokenStream& error) {
    return std::string(error.what()).find(path + ": byte ") == 0;
  }
  return false;
}

void broken_streams_are_refused() {
  const Folder folder;
  Recording recording(folder.path);
  for (std::uint64_t n = 0; n < 200; ++n) recording.access(1 + n % 7, load8, n * n * 8);
  recording.text("an event");
  recording.close();
  std::ifstream file(folder.path + "/rank-0.nfs", std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(file)), {});
  const std::string path = folder.path + "/broken.nfs";
  int accepted = 0;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::ofstream(path, std::ios::binary) << whole.substr(0, at);
    accepted += !is_refused(path);
    std::string other = whole;
    other[at] = static_cast<char>(other[at] ^ 4);
    std::ofstream(path, std::ios::binary) << other;
    accepted += !is_refused(path) && (at < 12 || at >= 16);  // zeros of the header, which mean nothing yet
  }
  CHECK(accepted == 0);
  CHECK_THROWS(StreamReader(folder.path + "/none.nfs"));
  const std::string pipe = folder.path + "/pipe.nfs";
  CHECK(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_THROWS(StreamReader(pipe));  // at once: nobody writes to it
}

}  // namespace

using Dependences = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

// Records what `make_loads` does. Returns the dependences that were found.
template <class MakeLoads>
Dependences find_dependences(MakeLoads make_loads) {
  const Folder folder;
  Recording recording(folder.path);
  std::mt19937_64 random(7);
  make_loads(recording, random);
  recording.close();
  return dependences;
}

constexpr std::uint64_t heap = 0x7f0000000000, other_heap = 0x7e0000000000;

// Are a list in random order, a list in consecutive elements, a cycle of indices, and elements at indices recognised?
void dependences_are_found() {
  for (const bool in_order : {false, true}) {
    const auto list = find_dependences([&](Recording& to, std::mt19937_64& random) {
      std::uint64_t at = heap;
      for (std::uint64_t i = 0; i < 2000; ++i) {
        const std::uint64_t next = heap + 64 * (in_order ? i : random() % 100000);
        to.load(1, at + 8, random());
        to.load(2, at, next);
        at = next;
      }
    });
    CHECK(std::ranges::is_permutation(list, Dependences{{1, 2}, {2, 2}}));
  }
  const auto cycle = find_dependences([](Recording& to, std::mt19937_64& random) {
    std::uint64_t at = 0;
    for (int i = 0; i < 200; ++i) {
      const std::uint64_t next = random() % 100000;
      to.load(1, heap + 24 * at, next);
      at = next;
    }
  });
  CHECK(cycle == (Dependences{{1, 1}}));
  const auto elements = find_dependences([](Recording& to, std::mt19937_64& random) {
    for (std::uint64_t i = 0; i < 200; ++i) {
      const std::uint64_t index = random() % 100000;
      to.load(1, heap + 8 * i, index);
      to.load(2, other_heap + 8 * index, random());
      to.access(3, store8, other_heap + 8 * index);
    }
  });
  CHECK(elements == (Dependences{{2, 1}}));
}

// Is nothing found where values agree with addresses by chance: rows of a matrix whose elements are their own numbers,
// read along columns; a pointer that never changes; and elements in random order without an index?
void chance_is_no_dependence() {
  CHECK(find_dependences([](Recording& to, std::mt19937_64&) {
          for (std::uint64_t column = 0; column < 300; ++column)
            for (std::uint64_t row = 0; row < 50; ++row)
              to.load(1, heap + 8 * (300 * row + column), 300 * row + column);
        }).empty());
  CHECK(find_dependences([](Recording& to, std::mt19937_64& random) {
          for (int i = 0; i < 5000; ++i) {
            to.load(1, heap, heap + 64);
            to.load(2, heap + 64 + 8 * (random() % 100), random());
          }
        }).empty());
  CHECK(find_dependences([](Recording& to, std::mt19937_64& random) {
          for (int i = 0; i < 5000; ++i) {
            const std::uint64_t index = random() % 100000;
            to.load(1, heap + 8 * index, index);
            to.load(2, other_heap + 8 * (random() % 100000), index);
          }
        }).empty());
}

// Have loads the roles that follow from the dependences, from the event on and in later chunks: two loads that depend
// on each other, an index and its element, and an element of an element?
void roles_follow_from_dependences() {
  const Folder folder;
  Recording recording(folder.path);
  const auto load_all = [&] {
    for (const std::uint64_t code : {1, 2, 3, 4, 5}) recording.load(code, heap + 8 * code, 0);
  };
  load_all();
  for (const auto& [load, on] : Dependences{{1, 2}, {2, 1}, {3, 1}, {4, 3}, {5, 6}})
    recording.event(Dependence{0, load, 0, on});
  recording.load(6, heap, 0);
  load_all();
  recording.finish_chunk();
  load_all();
  recording.access(4, store8, heap);
  recording.close();
  using enum LoadRole;
  StreamReader reader(folder.path + "/rank-0.nfs");
  std::array<Reference, 100> batch;
  std::vector<LoadRole> roles;
  do
    while (const auto count = reader.read_accesses(batch))
      for (const Reference& access : std::span(batch).first(count)) roles.push_back(access.role);
  while (reader.next_event());
  const std::vector<LoadRole> later{chain, chain, gather, gather, gather};
  std::vector<LoadRole> expected(5, independent);
  expected.push_back(index);
  for (int times = 0; times < 2; ++times) expected.insert(expected.end(), later.begin(), later.end());
  expected.push_back(independent);  // a store
  CHECK(roles == expected);
}

int main() {
  roles_follow_from_dependences();
  dependences_are_found();
  chance_is_no_dependence();
  what_is_recorded_is_read();
  repetition_is_nearly_free();
  broken_streams_are_refused();
  return failed_checks > 0;
}
