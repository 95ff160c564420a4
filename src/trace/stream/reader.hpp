// Reads a stream chunk by chunk (format.hpp). For invalid bytes, throws BrokenStream with the offset of the first one.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>

#include "trace/stream/format.hpp"
#include "trace/stream/input.hpp"
#include "trace/stream/source.hpp"

namespace nearfield::stream {

// The bytes are not a valid stream, or the stream is truncated. The message names the file and the byte offset, and
// suggests a remedy.
struct BrokenStream : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A code location that accesses memory: `offset` in the file of an object (the argument of addr2line). `kind` is a
// SiteKind.
struct Site {
  std::uint64_t object = 0, offset = 0;
  unsigned kind = 0;
};

class Reader final : public Source {
 public:
  // Throws BrokenStream if the file does not exist, is not a stream, or has another version.
  explicit Reader(const std::string& path);
  // `name` denotes the stream in messages. Throws BrokenStream if the input is not a stream.
  Reader(std::string name, std::unique_ptr<Input> input);
  // Returns a second reader of the same stream, which begins with the chunk that this reader is in.
  std::unique_ptr<Reader> open_at_chunk() const;

  std::size_t accesses(std::span<Reference> out) override;
  const Event* event() override;
  // Returns the sites read so far, which Reference::site indexes.
  const std::vector<Site>& sites() const { return sites_; }
  // Returns the paths of the objects (executable and libraries) read so far.
  const std::vector<std::string>& objects() const { return objects_; }
  // Skips to the last chunk that is not empty, which is read next. Used to read only the Sites event. Throws
  // BrokenStream if the stream is truncated.
  void skip_to_last_chunk();
  // Returns the headers of the chunks read so far.
  const std::vector<ChunkHeader>& chunks() const { return chunks_; }
  // Returns the number of accesses read so far. Thread-safe.
  std::uint64_t accesses_read() const { return passed_.load(std::memory_order_relaxed); }

 private:
  using Location = std::pair<std::uint64_t, std::uint64_t>;  // object and offset
  static constexpr std::size_t max_chain_loads = 64;         // code locations that load one after the other
  struct PredictedSite {
    AddressPredictor predictor;
    Reference access;  // size, direction and site of the access; the address is unset
    PredictedSite* next = nullptr;
  };
  struct HistoryMemory {
    HistoryMemory();
    std::unique_ptr<Step[]> steps;
    std::vector<std::uint32_t> after;
    History history;
  };

  // Creates a reader that begins with the chunk at `byte`.
  Reader(std::string name, std::unique_ptr<Input> input, std::uint64_t byte);
  bool read_chunk();
  ChunkHeader read_header();
  void read(void* to, std::size_t bytes);
  void unpack_chunk(const ChunkHeader& header);
  void begin_chunk();
  bool read_token();
  void perform_token(Token token);
  void define_site();
  void read_event();
  std::size_t take_predicted_accesses(std::span<Reference> out);
  Reference take_part_of_current();
  std::uint64_t read_number();
  PredictedSite& read_site();
  void correct_prediction(PredictedSite& site);
  std::uint32_t site_number(const Site& site);
  void add_dependence(const Dependence& found);
  LoadRole role_of(const Site& site) const;
  [[noreturn]] void throw_broken(std::uint64_t byte, const std::string& what) const;

  std::string name_;
  std::unique_ptr<Input> input_;
  std::uint64_t next_byte_ = 0, chunk_byte_ = 0;
  bool last_chunk_read_ = false;
  std::vector<unsigned char> raw_, stored_;
  const unsigned char *at_ = nullptr, *end_ = nullptr;
  // State of the current chunk:
  std::deque<PredictedSite> predictions_;
  PredictedSite no_site_;
  PredictedSite** link_ = nullptr;
  std::uint64_t predicted_ = 0;           // predicted accesses before the token that are not returned yet
  std::optional<Token> token_;            // the current token, if not performed yet
  Reference current_;                     // the access that the last token describes
  std::uint64_t current_bytes_left_ = 0;  // bytes of current_ that are not returned yet
  std::uint64_t last_new_address_ = 0;
  std::uint64_t accesses_in_chunk_ = 0;      // accesses read in this chunk
  std::uint64_t accesses_before_chunk_ = 0;  // accesses in earlier chunks
  std::atomic<std::uint64_t> passed_ = 0;
  std::size_t used_histories_ = 0;  // number of histories_ in use in this chunk
  std::deque<HistoryMemory> histories_;
  std::optional<Event> event_;
  bool event_given_ = false;  // event() has returned event_
  std::vector<Site> sites_;
  std::map<Location, Location> producers_;  // by the location of the loads that depend on them
  std::map<Location, LoadRole> roles_;
  std::vector<std::string> objects_;
  std::vector<ChunkHeader> chunks_;
  std::map<std::tuple<std::uint64_t, std::uint64_t, unsigned>, std::uint32_t> numbers_;
};

}  // namespace nearfield::stream
