// A source of a stream's bytes: a file, or a running program (live.hpp). Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

namespace nearfield::stream {

class StreamInput {
 public:
  virtual ~StreamInput() = default;
  // Reads the next bytes of the stream. Returns the number of bytes read, which is less than `bytes` only at the end of
  // the stream. Throws std::runtime_error on failure.
  virtual std::size_t read(void* to, std::size_t bytes) = 0;
  // Seeks to this byte of the stream. Returns whether it succeeded; only files can seek.
  virtual bool seek(std::uint64_t byte) = 0;
  // Declares that the reader no longer needs the bytes before `byte`, so that they can be freed.
  virtual void release_before(std::uint64_t) {}
  // Returns a second input that reads the same stream from `byte` on. `byte` must not precede the bytes that were
  // released.
  virtual std::unique_ptr<StreamInput> open_second_input_at(std::uint64_t byte) const = 0;
  // Returns the possible reasons for a truncated stream, for an error message.
  virtual std::string truncation_reason() const = 0;
};

class FileInput final : public StreamInput {
 public:
  // Throws std::system_error if the file cannot be opened.
  explicit FileInput(const std::string& path);

  std::size_t read(void* to, std::size_t bytes) override;
  bool seek(std::uint64_t byte) override;
  std::unique_ptr<StreamInput> open_second_input_at(std::uint64_t byte) const override;
  std::string truncation_reason() const override;

 private:
  struct FileCloser {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  std::unique_ptr<std::FILE, FileCloser> file_;
};

}  // namespace nearfield::stream
