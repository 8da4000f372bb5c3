// SPDX-License-Identifier: Apache-2.0
#include "cli/record.h"

#include <kvcache/record.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/library.h"
#include "cli/report.h"
#include "cli/table.h"

namespace kvcli {
namespace {

std::string read_file(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    throw InputError(path + ": is a directory; name a log in it");
  std::ifstream file(path, std::ios::binary);
  if (path != "-" && !file)
    throw InputError(path + ": " + std::strerror(errno) + "; give a log of kvc_manager_take_log");
  std::istream& in = path == "-" ? std::cin : file;
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string hexadecimal(uint64_t value) {
  std::ostringstream text;
  text << std::hex << std::setw(16) << std::setfill('0') << value;
  return text.str();
}

}  // namespace

LogFile::LogFile(const std::string& path) : path_(path), file_(path, std::ios::binary | std::ios::trunc) {
  if (!file_) throw InputError(path + ": " + std::strerror(errno) + "; give a writable file");
}

void LogFile::drain(kvc_manager* manager) {
  constexpr uint64_t kMuch = uint64_t{1} << 20;
  const auto info = ask<kvc_log_info>(kvc_manager_log_info, manager);
  if (info.bytes >= kMuch) take(manager, info.bytes);
}

void LogFile::finish(kvc_manager* manager) {
  uint64_t digest;
  check(kvc_manager_digest(manager, &digest));
  const auto info = ask<kvc_log_info>(kvc_manager_log_info, manager);
  take(manager, info.bytes);
  if (info.lost_calls != 0)
    throw std::runtime_error(path_ + ": the log lost " + grouped(info.lost_calls) +
                             " calls; use less concurrency");
  if (!file_.flush())
    throw std::runtime_error(path_ + ": not written completely; check the space on the disk");
}

void LogFile::take(kvc_manager* manager, uint64_t size) {
  bytes_.resize(size);
  size_t written = 0;
  check(kvc_manager_take_log(manager, bytes_.data(), bytes_.size(), &written));
  file_.write(bytes_.data(), static_cast<std::streamsize>(written));
}

bool replay_log(const std::string& path, bool json, std::ostream& out) {
  const std::string log = read_file(path);
  auto info = make<kvc_replay_info>();
  const kvc_status status = kvc_log_replay(log.data(), log.size(), &info);
  if (status == KVC_ERROR_INVALID_ARGUMENT || status == KVC_ERROR_UNSUPPORTED)
    throw InputError((path == "-" ? "(standard input)" : path) + ": " + kvc_last_error());
  check(status);
  if (json) {
    const nlohmann::ordered_json report = {{"calls", info.calls},
                                           {"digest", hexadecimal(info.digest)},
                                           {"mismatches", info.mismatches},
                                           {"first_mismatch", info.first_mismatch},
                                           {"text", info.text},
                                           {"lost_calls", info.lost_calls},
                                           {"bytes", log.size()},
                                           {"library_version", version_text(info.library_version)}};
    out << report.dump(2) << '\n';
  } else {
    row(out, "calls", grouped(info.calls), "of library " + version_text(info.library_version));
    row(out, "digest", hexadecimal(info.digest), "of the state after the last call");
    row(out, "mismatches", grouped(info.mismatches), info.text);
  }
  if (info.mismatches != 0) std::cerr << "kvcache: " << info.text << "; please report it, with the log\n";
  if (info.lost_calls != 0) {
    std::cerr << "kvcache: the log was full after call " << grouped(info.calls) << " and lost "
              << grouped(info.lost_calls)
              << " calls; record again with more record_bytes, or take the log more often\n";
  }
  return info.mismatches == 0 && info.lost_calls == 0;
}

}  // namespace kvcli
