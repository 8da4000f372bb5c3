// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/folder.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/status.h"
#include "checkpoint/read_manifest.h"

namespace kvc {
namespace {

constexpr size_t kIdDigits = 20;

std::string name_of(uint64_t id, const char* ending) {
  char name[64];
  std::snprintf(name, sizeof name, "%020llu%s", ull(id), ending);
  return name;
}

// The id of a name with this ending; 0 = it is none. No save has the greatest number: none could follow it.
uint64_t id_of(const char* name, const char* ending) {
  uint64_t id = 0;
  for (size_t i = 0; i < kIdDigits; ++i) {
    if (name[i] < '0' || name[i] > '9') return 0;
    id = id * 10 + static_cast<uint64_t>(name[i] - '0');
  }
  return std::strcmp(name + kIdDigits, ending) == 0 && name_of(id, ending) == name && id != UINT64_MAX ? id
                                                                                                       : 0;
}

int retry(auto&& call) {
  int result;
  do {
    result = call();
  } while (result == -EINTR);
  return result;
}

}  // namespace

std::string CheckpointFolder::manifest_name(uint64_t id) { return name_of(id, ".kvcm"); }
std::string CheckpointFolder::data_name(uint64_t id) { return name_of(id, ".kvcd"); }
std::string CheckpointFolder::journal_name(uint64_t id) { return name_of(id, ".kvcj.part"); }

kvc_status CheckpointFolder::failure(const std::string& name, const char* what, int error) const {
  const kvc_status status = error == -ENOSPC || error == -EDQUOT || error == -EMFILE || error == -ENFILE
                                ? KVC_ERROR_LIMIT
                            : error == -ENOENT || error == -ENOTDIR ? KVC_ERROR_NOT_FOUND
                            : error == -EWOULDBLOCK                 ? KVC_ERROR_BUSY
                                                                    : KVC_ERROR_DEVICE;
  const std::string whole = name.empty() ? path_ : file(name);
  return fail(status, "%s: cannot %s: %s (errno %d)", whole.c_str(), what, std::strerror(-error), -error);
}

kvc_status CheckpointFolder::open(For what) {
  if (what == For::kMake || what == For::kMakeDurable) {
    const int made = retry([&] { return files_.make_folder(AT_FDCWD, path_.c_str(), 0777); });
    if (made != 0 && made != -EEXIST) return failure("", "make the folder", made);
  }
  // The path may be a link to a folder: its last part is "." then, and no link.
  const int error = folder_.open(AT_FDCWD, (path_ + "/.").c_str(), O_RDONLY | O_DIRECTORY);
  if (error != 0) return failure("", "open the folder", error);
  if (what == For::kMakeDurable) {  // who made it may not have waited for the disk
    const int synced = sync_parent(files_, path_.c_str());
    const bool cannot = synced == -EACCES || synced == -EINVAL;  // nobody here may, or there is no way to
    if (synced != 0 && !cannot) return failure("", "write the name of the folder to the disk", synced);
  }
  if (what == For::kRead) return KVC_OK;
  if (const int lock_error = lock_.open(fd(), "lock", O_RDWR | O_CREAT, 0666); lock_error != 0)
    return failure("lock", "open the file", lock_error);
  const int locked = retry([&] { return files_.lock(lock_.fd()); });
  if (locked == -EWOULDBLOCK)
    return fail(KVC_ERROR_BUSY, "%s: another process, or another call, writes to it; try again later",
                path_.c_str());
  return locked == 0 ? KVC_OK : failure("lock", "lock the file", locked);
}

kvc_status CheckpointFolder::list() {
  manifests_.clear(), data_.clear(), parts_.clear(), journals_.clear();
  const int error = retry([&] {
    return files_.list(fd(), this, [](void* self, const char* name) {
      auto& folder = *static_cast<CheckpointFolder*>(self);
      if (std::strlen(name) < kIdDigits) return;
      if (const uint64_t id = id_of(name, ".kvcm"); id != 0) folder.manifests_.push_back(id);
      if (const uint64_t id = id_of(name, ".kvcd"); id != 0) folder.data_.push_back(id);
      for (const char* const ending : {".kvcm.part", ".kvcd.part", ".kvcj.part.new"})
        if (id_of(name, ending) != 0) folder.parts_.emplace_back(name);
      if (const uint64_t id = id_of(name, ".kvcj.part"); id != 0) {
        folder.journals_.push_back(id);
        folder.parts_.emplace_back(name);
      }
    });
  });
  if (error != 0) return failure("", "list the folder", error);
  for (std::vector<uint64_t>* ids : {&manifests_, &data_, &journals_}) {
    std::sort(ids->begin(), ids->end());
    ids->erase(std::unique(ids->begin(), ids->end()), ids->end());
  }
  return KVC_OK;
}

// The content of `lock`: the id of the newest checkpoint that was removed, in a name of its form.
uint64_t CheckpointFolder::highest_removed() const {
  char name[kIdDigits + 1] = {};
  if (lock_.fd() < 0 || read_fully(files_, lock_.fd(), name, kIdDigits, 0) != 0) return 0;
  return id_of(name, "");
}

kvc_status CheckpointFolder::note_removal(uint64_t id) {
  if (id < manifests_.back() || id <= highest_removed()) return KVC_OK;
  const std::string name = name_of(id, "");
  int error = write_fully(files_, lock_.fd(), name.data(), name.size(), 0);
  if (error == 0) error = retry([&] { return files_.sync(lock_.fd()); });
  return error == 0 ? KVC_OK : failure("lock", "write the file", error);
}

uint64_t CheckpointFolder::next_id() const {
  uint64_t last = highest_removed();
  for (const std::vector<uint64_t>* ids : {&manifests_, &data_}) {
    if (!ids->empty()) last = std::max(last, ids->back());
  }
  // The id of a save that was cut short stays, also when the checkpoint before it was removed since.
  return std::max(last + 1, journals_.empty() ? 0 : journals_.back());
}

// Manifests name data files of their own id or a lower one, so that none of them names this one.
uint64_t CheckpointFolder::unfinished_id(bool* named) const {
  const uint64_t newest = manifests_.empty() ? 0 : manifests_.back();
  for (const uint64_t id : journals_) {
    if (id <= newest) continue;
    *named = !data_.empty() && data_.back() == id;
    if (*named || id == next_id()) return id;
  }
  return 0;
}

kvc_status CheckpointFolder::read_manifest(uint64_t id, Manifest* out) const {
  if (id == 0 && manifests_.empty()) return fail(KVC_ERROR_NOT_FOUND, "%s has no checkpoint", path_.c_str());
  if (id == 0) id = manifests_.back();
  const std::string name = manifest_name(id);
  OpenFile in(files_);
  int error = in.open(fd(), name.c_str(), O_RDONLY);
  if (error == -ENOENT) return fail(KVC_ERROR_NOT_FOUND, "%s has no checkpoint %llu", path_.c_str(), ull(id));
  if (error != 0) return failure(name, "open the file", error);
  struct stat status = {};
  error = retry([&] { return files_.status(in.fd(), &status); });
  if (error != 0) return failure(name, "tell the size of the file", error);
  const auto size = static_cast<uint64_t>(status.st_size);
  KVC_TRY(kvc::read_manifest(files_, in.fd(), 0, size, file(name).c_str(), out, &error));
  if (error != 0) return failure(name, "read the file", error);
  if (out->id == id) return KVC_OK;
  return fail(KVC_ERROR_CORRUPT, "%s: it is the manifest of checkpoint %llu", file(name).c_str(),
              ull(out->id));
}

kvc_status CheckpointFolder::write_file(const std::string& name, const std::string& bytes, bool sync) {
  OpenFile out(files_);
  int error = out.open(fd(), name.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (error != 0) return failure(name, "make the file", error);
  error = write_fully(files_, out.fd(), bytes.data(), bytes.size(), 0);
  if (error != 0) return failure(name, "write the file", error);
  if (sync) error = retry([&] { return files_.sync(out.fd()); });
  if (error != 0) return failure(name, "write the file to the disk", error);
  error = out.close();
  return error == 0 || error == -EINTR ? KVC_OK : failure(name, "close the file", error);
}

kvc_status CheckpointFolder::sync_file(const std::string& name) {
  OpenFile out(files_);
  int error = out.open(fd(), name.c_str(), O_RDONLY);
  if (error == 0) error = retry([&] { return files_.sync(out.fd()); });
  return error == 0 ? KVC_OK : failure(name, "write the file to the disk", error);
}

kvc_status CheckpointFolder::rename(const std::string& from, const std::string& to) {
  const int error = retry([&] { return files_.rename(fd(), from.c_str(), to.c_str()); });
  return error == 0 ? KVC_OK : failure(from, "give the file its name", error);
}

kvc_status CheckpointFolder::sync() {
  const int error = retry([&] { return files_.sync(fd()); });
  return error == 0 || error == -EINVAL ? KVC_OK : failure("", "write the folder to the disk", error);
}

void CheckpointFolder::note_manifest(const Manifest& manifest) {
  Needs& needs = needs_[manifest.id];
  needs = {};
  for (const Manifest::DataFile& file : manifest.files) needs.files.push_back(file.id);
}

const CheckpointFolder::Needs& CheckpointFolder::needs_of(uint64_t id) {
  if (const auto known = needs_.find(id); known != needs_.end()) return known->second;
  Manifest manifest;
  const kvc_status status = read_manifest(id, &manifest);
  if (status == KVC_OK)
    note_manifest(manifest);
  else
    needs_[id] = {status, std::string(last_error()), {}};
  return needs_[id];
}

kvc_status CheckpointFolder::tell_unread() {
  for (const uint64_t id : manifests_) {
    const Needs& needs = needs_of(id);
    if (needs.status != KVC_OK)
      return fail(needs.status,
                  "%s. Nobody knows which data files it needs, so none was removed: bring the file back, or "
                  "remove the checkpoint by its id, %llu",
                  needs.error.c_str(), ull(id));
  }
  return KVC_OK;
}

std::vector<uint64_t> CheckpointFolder::older_than_newest(uint32_t keep, const std::vector<uint64_t>& gone) {
  std::vector<uint64_t> older = gone;
  if (keep == 0 || manifests_.size() <= keep) return older;
  for (size_t i = manifests_.size(), newer = 0; i-- != 0;) {
    if (std::find(gone.begin(), gone.end(), manifests_[i]) != gone.end()) continue;
    if (needs_of(manifests_[i]).status == KVC_OK && ++newer > keep) older.push_back(manifests_[i]);
  }
  return older;
}

uint64_t CheckpointFolder::remove_manifests(const std::vector<uint64_t>& ids, bool sync) {
  uint64_t left = 0;
  for (const uint64_t id : ids) {
    const int error = retry([&] { return files_.remove(fd(), manifest_name(id).c_str()); });
    if (error != 0 && error != -ENOENT) {
      ++left;
      continue;
    }
    manifests_.erase(std::remove(manifests_.begin(), manifests_.end(), id), manifests_.end());
  }
  // Its data must not go before it: a manifest without data is worse than data without a manifest.
  if (sync && !ids.empty() && this->sync() != KVC_OK) return left + 1;
  return left;
}

void CheckpointFolder::remove_failed(uint64_t id) {
  static_cast<void>(files_.remove(fd(), (manifest_name(id) + ".part").c_str()));
  static_cast<void>(files_.remove(fd(), (journal_name(id) + ".new").c_str()));
  struct stat status = {};
  if (files_.status_at(fd(), journal_name(id).c_str(), &status) == 0 &&
      static_cast<uint64_t>(status.st_size) > sizeof(Manifest::Page))
    return;  // the next save goes on behind these pages
  static_cast<void>(files_.remove(fd(), journal_name(id).c_str()));
  static_cast<void>(files_.remove(fd(), (data_name(id) + ".part").c_str()));
  if (files_.status_at(fd(), manifest_name(id).c_str(), &status) == -ENOENT)
    static_cast<void>(files_.remove(fd(), data_name(id).c_str()));
}

uint64_t CheckpointFolder::remove_unneeded(bool unfinished, bool sync) {
  uint64_t left = 0;
  if (list() != KVC_OK) return 1;
  bool removed = false, named = false;
  const uint64_t kept = unfinished ? 0 : unfinished_id(&named);
  const auto remove = [&](const std::string& name) {
    struct stat status = {};
    if (files_.status_at(fd(), name.c_str(), &status) != 0) status.st_size = 0;
    const int error = retry([&] { return files_.remove(fd(), name.c_str()); });
    left += error != 0 && error != -ENOENT;
    if (error == 0) removed_bytes_ += static_cast<uint64_t>(status.st_size);
    removed = true;
  };
  for (const std::string& part : parts_) {
    if (kept == 0 || (part != journal_name(kept) && part != data_name(kept) + ".part")) remove(part);
  }
  std::vector<uint64_t> needed;
  if (kept != 0) needed.push_back(kept);
  for (const uint64_t id : manifests_) {
    if (const auto known = needs_.find(id); known != needs_.end())
      needed.insert(needed.end(), known->second.files.begin(), known->second.files.end());
  }
  std::sort(needed.begin(), needed.end());
  bool all_read = true;
  if (!std::includes(needed.begin(), needed.end(), data_.begin(), data_.end())) {  // else none can go
    for (const uint64_t id : manifests_) {
      const Needs& needs = needs_of(id);
      all_read = all_read && needs.status == KVC_OK;
      needed.insert(needed.end(), needs.files.begin(), needs.files.end());
    }
    std::sort(needed.begin(), needed.end());
  }
  for (const uint64_t id : data_) {
    if (std::binary_search(needed.begin(), needed.end(), id)) continue;
    if (all_read)
      remove(data_name(id));
    else
      ++left;
  }
  if (removed && sync && this->sync() != KVC_OK) ++left;
  return left;
}

}  // namespace kvc
