// A source of a stream's bytes: a file, or a running program (live.hpp). Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

namespace nearfield::stream {

class Input {
 public:
  virtual ~Input() = default;
  // Reads the next bytes. Returns their number, which is below `bytes` only at the end of the stream. Throws
  // std::runtime_error on failure.
  virtual std::size_t read(void* to, std::size_t bytes) = 0;
  // Seeks to this byte of the stream. Returns whether that is possible; only files can.
  virtual bool go_to(std::uint64_t byte) = 0;
  // Declares that the reader no longer needs the bytes before this one.
  virtual void passed(std::uint64_t) {}
  // Returns a second input that reads from this byte on, which must not precede those passed.
  virtual std::unique_ptr<Input> another(std::uint64_t byte) const = 0;
  // Returns the possible reasons for a truncated stream.
  virtual std::string why_cut() const = 0;
};

class FileInput final : public Input {
 public:
  // Throws std::system_error if there is no such file.
  explicit FileInput(const std::string& path);

  std::size_t read(void* to, std::size_t bytes) override;
  bool go_to(std::uint64_t byte) override;
  std::unique_ptr<Input> another(std::uint64_t byte) const override;
  std::string why_cut() const override;

 private:
  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  std::unique_ptr<std::FILE, Closer> file_;
};

}  // namespace nearfield::stream
