// SPDX-License-Identifier: Apache-2.0
// Reads weights from a safetensors file: 8 bytes with the size of a JSON header, the header, the tensors'
// bytes. A file comes from anywhere: whatever its bytes are, the answer is the tensor or a
// std::runtime_error, and memory is taken only for what the file really has.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <istream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

struct Tensor {
  std::string dtype;
  std::vector<uint64_t> shape;
  uint64_t begin = 0, end = 0;  // bytes after the header
};

// The JSON that headers are made of: {"name":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}, ...}, and
// perhaps
// "__metadata__":{"key":"text", ...}.
class SafeTensorsHeader {
 public:
  explicit SafeTensorsHeader(const std::string& json) : json_(json) {
    each('{', '}', [&] {
      const std::string name = name_of_member();
      if (name == "__metadata__") return each('{', '}', [&] { name_of_member(), string(); });
      Tensor tensor;
      std::vector<uint64_t> offsets;
      each('{', '}', [&] {
        const std::string key = name_of_member();
        if (key == "dtype")
          tensor.dtype = string();
        else if (key == "shape" || key == "data_offsets")
          each('[', ']', [&] { (key == "shape" ? tensor.shape : offsets).push_back(number()); });
        else
          fail();
      });
      if (offsets.size() != 2 || offsets[0] > offsets[1]) fail();
      tensor.begin = offsets[0], tensor.end = offsets[1];
      tensors[name] = tensor;
    });
    if (next() != '\0') fail();
  }

  std::map<std::string, Tensor> tensors;

 private:
  [[noreturn]] static void fail() {
    throw std::runtime_error("the file's header is not that of safetensors");
  }
  char next() {  // past spaces; 0 at the end
    while (at_ < json_.size() && std::strchr(" \t\r\n", json_[at_]) != nullptr && json_[at_] != '\0') ++at_;
    return at_ < json_.size() ? json_[at_] : '\0';
  }
  void expect(char c) {
    if (next() != c) fail();
    ++at_;
  }
  template <typename Item>
  void each(char open, char close, Item&& item) {
    expect(open);
    if (next() != close) {
      for (item(); next() == ','; item()) ++at_;
    }
    expect(close);
  }
  std::string name_of_member() {
    std::string name = string();
    expect(':');
    return name;
  }
  std::string string() {  // escapes stay as they are
    expect('"');
    const size_t begin = at_;
    for (; at_ < json_.size() && json_[at_] != '"'; at_ += json_[at_] == '\\' ? 2 : 1) {
      if (static_cast<unsigned char>(json_[at_]) < ' ') fail();  // JSON has none of them in strings
    }
    if (at_ >= json_.size()) fail();
    return json_.substr(begin, at_++ - begin);
  }
  uint64_t number() {
    uint64_t value = 0;
    if (next() < '0' || next() > '9') fail();
    for (; at_ < json_.size() && json_[at_] >= '0' && json_[at_] <= '9'; ++at_) {
      if (value > (UINT64_MAX - 9) / 10) fail();
      value = value * 10 + static_cast<uint64_t>(json_[at_] - '0');
    }
    return value;
  }

  const std::string& json_;
  size_t at_ = 0;
};

class SafeTensors {
 public:
  explicit SafeTensors(std::istream& file) : file_(file) {
    file_.seekg(0, std::ios::end);
    const std::streamoff bytes = file_.tellg();
    file_.seekg(0);
    uint64_t size = 0;
    file_.read(reinterpret_cast<char*>(&size), 8);
    if (!file_ || size > static_cast<uint64_t>(bytes) - 8)
      throw std::runtime_error("no safetensors file, or one that is cut short");
    std::string json(size, ' ');
    file_.read(json.data(), static_cast<std::streamsize>(size));
    if (!file_) throw std::runtime_error("the file cannot be read");
    data_ = 8 + size;
    for (auto& [name, tensor] : SafeTensorsHeader(json).tensors) {
      check(name, tensor, static_cast<uint64_t>(bytes) - data_);
      tensors_[name] = tensor;
    }
  }

  bool has(const std::string& name) const { return tensors_.count(name) != 0; }
  const Tensor& at(const std::string& name) const {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) throw std::runtime_error("the file has no tensor " + name);
    return found->second;
  }
  const std::map<std::string, Tensor>& all() const { return tensors_; }

  std::vector<float> read(const std::string& name) {
    const Tensor& t = at(name);
    const size_t width = width_of(t.dtype);
    if (width == 0) throw std::runtime_error(name + ": type " + t.dtype);
    std::vector<char> raw(t.end - t.begin);
    file_.clear();
    file_.seekg(static_cast<std::streamoff>(data_ + t.begin));
    file_.read(raw.data(), static_cast<std::streamsize>(raw.size()));
    if (!file_) throw std::runtime_error("the file cannot be read");
    std::vector<float> out(raw.size() / width);
    for (size_t i = 0; i < out.size(); ++i) out[i] = value(&raw[i * width], t.dtype);
    return out;
  }

 private:
  static size_t width_of(const std::string& dtype) {
    return dtype == "F32" ? 4 : dtype == "BF16" || dtype == "F16" ? 2 : 0;
  }
  // Of types that are read: the shape makes the bytes, which are there.
  static void check(const std::string& name, const Tensor& t, uint64_t data_bytes) {
    uint64_t count = width_of(t.dtype);
    if (t.end > data_bytes) throw std::runtime_error(name + " goes past the end of the file");
    if (count == 0) return;
    for (const uint64_t n : t.shape) {
      if (n != 0 && count > data_bytes / n)
        throw std::runtime_error(name + ": its shape goes past the end of the file");
      count *= n;
    }
    if (count != t.end - t.begin) throw std::runtime_error(name + ": its shape and its bytes do not fit");
  }
  static float value(const char* from, const std::string& dtype) {
    uint32_t bits = 0;
    float out;
    if (dtype == "F16") {
      uint16_t half;
      std::memcpy(&half, from, 2);
      const int exponent = half >> 10 & 31;
      const float fraction = static_cast<float>(half & 1023) / 1024;
      out = exponent == 0 ? std::ldexp(fraction, -14) : std::ldexp(1 + fraction, exponent - 15);
      return half >> 15 ? -out : out;
    }
    const size_t width = dtype == "F32" ? 4 : 2;
    std::memcpy(reinterpret_cast<char*>(&bits) + 4 - width, from, width);
    std::memcpy(&out, &bits, 4);
    return out;
  }

  std::istream& file_;
  uint64_t data_ = 0;
  std::map<std::string, Tensor> tensors_;
};
