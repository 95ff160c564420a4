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

class StreamReader final : public StreamSource {
 public:
  // Throws BrokenStream if the file does not exist, is not a stream, or has another version.
  explicit StreamReader(const std::string& path);
  // `name` denotes the stream in messages. Throws BrokenStream if the input is not a stream.
  StreamReader(std::string name, std::unique_ptr<StreamInput> input);
  // Returns a second reader of the same stream, which begins with the chunk that this reader is in.
  std::unique_ptr<StreamReader> open_at_chunk() const;

  std::size_t read_accesses(std::span<Reference> out) override;
  const Event* next_event() override;
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
  std::uint64_t num_accesses_read() const { return num_accesses_read_.load(std::memory_order_relaxed); }

 private:
  using CodeLocation = std::pair<std::uint64_t, std::uint64_t>;  // object and offset
  static constexpr std::size_t max_chain_loads = 64;             // code locations that load one after the other
  struct PredictedSite {
    AddressPredictor predictor;
    Reference access;  // size, direction and site of the access; the address is unset
    PredictedSite* next = nullptr;
  };
  struct HistoryMemory {
    HistoryMemory();
    std::unique_ptr<Step[]> steps;
    std::vector<std::uint32_t> next_step_by_slot;
    StepHistory history;
  };

  // Creates a reader that begins with the chunk at `byte`.
  StreamReader(std::string name, std::unique_ptr<StreamInput> input, std::uint64_t byte);
  bool read_chunk();
  ChunkHeader read_header();
  void read_bytes(void* to, std::size_t bytes);
  void unpack_chunk(const ChunkHeader& header);
  void begin_chunk();
  bool read_token();
  void decode_token(Token token);
  void define_site();
  void read_event();
  std::size_t take_predicted_accesses(std::span<Reference> out);
  Reference take_part_of_access();
  std::uint64_t read_number();
  PredictedSite& read_site();
  void correct_prediction(PredictedSite& site);
  std::uint32_t number_of_site(const Site& site);
  void add_dependence(const Dependence& dependence);
  LoadRole role_of(const Site& site) const;
  [[noreturn]] void throw_broken(std::uint64_t byte, const std::string& problem) const;

  std::string stream_name_;
  std::unique_ptr<StreamInput> input_;
  std::uint64_t next_byte_ = 0, chunk_byte_ = 0;
  bool is_last_chunk_read_ = false;
  std::vector<unsigned char> raw_chunk_, stored_chunk_;
  const unsigned char *position_ = nullptr, *end_ = nullptr;
  // State of the current chunk:
  std::deque<PredictedSite> predicted_sites_;
  PredictedSite no_site_;
  PredictedSite** next_site_link_ = nullptr;
  std::uint64_t num_predicted_ = 0;           // predicted accesses before the token that are not returned yet
  std::optional<Token> pending_token_;        // the current token, if not performed yet
  Reference current_access_;                  // the access that the last token describes
  std::uint64_t remaining_access_bytes_ = 0;  // bytes of current_access_ that are not returned yet
  std::uint64_t last_new_address_ = 0;
  std::uint64_t accesses_in_chunk_ = 0;      // accesses read in this chunk
  std::uint64_t accesses_before_chunk_ = 0;  // accesses in earlier chunks
  std::atomic<std::uint64_t> num_accesses_read_ = 0;
  std::size_t num_used_histories_ = 0;  // number of histories_ in use in this chunk
  std::deque<HistoryMemory> histories_;
  std::optional<Event> event_;
  bool is_event_returned_ = false;  // next_event() has returned event_
  std::vector<Site> sites_;
  std::map<CodeLocation, CodeLocation> producer_by_load_;  // by the location of the loads that depend on them
  std::map<CodeLocation, LoadRole> role_by_load_;
  std::vector<std::string> objects_;
  std::vector<ChunkHeader> chunks_;
  std::map<std::tuple<std::uint64_t, std::uint64_t, unsigned>, std::uint32_t> number_by_site_;
};

}  // namespace nearfield::stream
