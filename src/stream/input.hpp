// Where the bytes of a stream come from: a file, or a program that still runs (live.hpp). One thread uses an input.
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
  // Reads on. Returns how many bytes it read, which are fewer than `bytes` only where the stream ends. Throws
  // std::runtime_error if it cannot be read.
  virtual std::size_t read(void* to, std::size_t bytes) = 0;
  // Reads on from this byte of the stream. Returns whether it can; only files can.
  virtual bool go_to(std::uint64_t byte) = 0;
  // The reader needs none of the bytes before this one any more.
  virtual void passed(std::uint64_t) {}
  // Returns a second input, which reads from this byte on; not from one before those that are passed.
  virtual std::unique_ptr<Input> another(std::uint64_t byte) const = 0;
  // Returns why a stream may end in the middle.
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
