// Reads a stream chunk by chunk (format.hpp). What is broken is refused at its byte.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>

#include "stream/format.hpp"
#include "stream/input.hpp"
#include "stream/source.hpp"

namespace nearfield::stream {

// The bytes are not those of a stream, or stop in the middle. The message names the file, the byte and the remedy.
struct BrokenStream : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A place in the program that accesses memory: `offset` in the file of an object, as addr2line takes it.
struct Site {
  std::uint64_t object = 0, offset = 0;
  unsigned kind = 0;
};

class Reader final : public Source {
 public:
  // Throws BrokenStream if there is no such file, or if it is none of a stream or of another version.
  explicit Reader(const std::string& path);
  // `name` stands for the stream in messages. Throws BrokenStream if the input is none of a stream.
  Reader(std::string name, std::unique_ptr<Input> input);
  // Returns a second reader, which begins with the chunk that this one is in.
  std::unique_ptr<Reader> another() const;

  std::size_t accesses(std::span<Reference> out) override;
  const Event* event() override;
  // Returns the sites so far; Reference::site counts them.
  const std::vector<Site>& sites() const { return sites_; }
  // Returns the paths of the objects so far.
  const std::vector<std::string>& objects() const { return objects_; }
  // Passes over all chunks but the last one that has bytes; the next thing read is that one's first. Throws BrokenStream
  // if the stream is cut. For who wants Sites.
  void to_last_chunk();
  // Returns the headers of the chunks so far.
  const std::vector<ChunkHeader>& chunks() const { return chunks_; }
  // Returns how many accesses were read so far. Any thread may ask.
  std::uint64_t passed() const { return passed_.load(std::memory_order_relaxed); }

 private:
  struct Predicted {
    Course course;
    Reference access;  // all but its address
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
  void take_event();
  std::size_t predicted(std::span<Reference> out);
  Reference part_of_made();
  std::uint64_t number();
  Predicted& site();
  void elsewhere(Predicted& site);
  std::uint32_t site_number(const Site& site);
  [[noreturn]] void broken(std::uint64_t byte, const std::string& what) const;

  std::string name_;
  std::unique_ptr<Input> input_;
  std::uint64_t next_byte_ = 0, chunk_byte_ = 0;
  bool last_ = false;
  std::vector<unsigned char> raw_, stored_;
  const unsigned char *at_ = nullptr, *end_ = nullptr;
  // Of this chunk:
  std::deque<Predicted> predictions_;
  Predicted nobody_;
  Predicted** link_ = nullptr;
  std::uint64_t predicted_ = 0;   // accesses that are as predicted, before what the token says
  std::optional<Token> token_;    // still to be performed
  Reference made_;                // the token's own access, of which
  std::uint64_t made_bytes_ = 0;  // so many bytes are still to be given
  std::uint64_t last_new_ = 0;
  std::uint64_t in_chunk_ = 0;  // accesses so far
  std::uint64_t before_ = 0;    // accesses of chunks before
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
