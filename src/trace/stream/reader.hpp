// Reads a stream chunk by chunk (format.hpp). Throws BrokenStream with the offset of the first invalid byte.
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

// The bytes are not a valid stream, or it is truncated. The message names the file, the byte and the remedy.
struct BrokenStream : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A code location that accesses memory: `offset` in the file of an object, as addr2line takes it.
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
  // Returns a second reader that begins with this one's current chunk.
  std::unique_ptr<Reader> another() const;

  std::size_t accesses(std::span<Reference> out) override;
  const Event* event() override;
  // Returns the sites so far, which Reference::site indexes.
  const std::vector<Site>& sites() const { return sites_; }
  // Returns the paths of the objects so far.
  const std::vector<std::string>& objects() const { return objects_; }
  // Skips all chunks up to the last one that has bytes, which is read next. Used to read only Sites. Throws
  // BrokenStream if the stream is truncated.
  void skip_to_last_chunk();
  // Returns the headers of the chunks so far.
  const std::vector<ChunkHeader>& chunks() const { return chunks_; }
  // Returns the number of accesses read so far. Thread-safe.
  std::uint64_t passed() const { return passed_.load(std::memory_order_relaxed); }

 private:
  struct Predicted {
    AddressPredictor predictor;
    Reference access;  // except for its address
    Predicted* next = nullptr;
  };
  struct Memory {
    Memory();
    std::unique_ptr<Step[]> steps;
    std::vector<std::uint32_t> after;
    History history;
  };

  // Begins with the chunk at `byte`.
  Reader(std::string name, std::unique_ptr<Input> input, std::uint64_t byte);
  bool next_chunk();
  ChunkHeader read_header();
  void read(void* to, std::size_t bytes);
  void unpack(const ChunkHeader& header);
  void begin_chunk();
  bool next_token();
  void perform(Token token);
  void define();
  void read_event();
  std::size_t predicted(std::span<Reference> out);
  Reference part_of_current();
  std::uint64_t number();
  Predicted& site();
  void correct_prediction(Predicted& site);
  std::uint32_t site_number(const Site& site);
  [[noreturn]] void broken(std::uint64_t byte, const std::string& what) const;

  std::string name_;
  std::unique_ptr<Input> input_;
  std::uint64_t next_byte_ = 0, chunk_byte_ = 0;
  bool last_ = false;
  std::vector<unsigned char> raw_, stored_;
  const unsigned char *at_ = nullptr, *end_ = nullptr;
  // State of the current chunk:
  std::deque<Predicted> predictions_;
  Predicted nobody_;
  Predicted** link_ = nullptr;
  std::uint64_t predicted_ = 0;           // predicted accesses that precede the token
  std::optional<Token> token_;            // not performed yet
  Reference current_;                     // the token's own access
  std::uint64_t current_bytes_left_ = 0;  // its bytes not returned yet
  std::uint64_t last_new_ = 0;
  std::uint64_t in_chunk_ = 0;  // accesses so far
  std::uint64_t before_ = 0;    // accesses in earlier chunks
  std::atomic<std::uint64_t> passed_ = 0;
  std::size_t used_ = 0;  // of histories_
  std::deque<Memory> histories_;
  std::optional<Event> event_;
  bool given_ = false;  // event() has returned it
  std::vector<Site> sites_;
  std::vector<std::string> objects_;
  std::vector<ChunkHeader> chunks_;
  std::map<std::tuple<std::uint64_t, std::uint64_t, unsigned>, std::uint32_t> numbers_;
};

}  // namespace nearfield::stream
