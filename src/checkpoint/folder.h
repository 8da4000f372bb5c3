// SPDX-License-Identifier: Apache-2.0
// The folder of checkpoints: <id>.kvcm is a manifest, <id>.kvcd a data file, both with 20 digits; *.part is
// being written, or was when a save was cut short; `lock` is locked by the process that writes, and has the
// highest id that was removed, so that it is not given again. A checkpoint
// is there as soon as its manifest has its name. Readers take no lock: they open what they need and keep it
// open.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "base/files.h"
#include "checkpoint/manifest.h"

namespace kvc {

class CheckpointFolder {
 public:
  CheckpointFolder(Files& files, const char* path)
      : files_(files), path_(path), folder_(files), lock_(files) {}

  // Read: nothing is made. Write: locks the folder. Make: makes it before if it is not there; make_durable:
  // so that it outlives the machine. BUSY: another process has the lock.
  enum class For { kRead, kWrite, kMake, kMakeDurable };
  kvc_status open(For what);
  const std::string& path() const { return path_; }
  Files& files() const { return files_; }
  int fd() const { return folder_.fd(); }

  // Ids of manifests and of data files, ascending.
  kvc_status list();
  const std::vector<uint64_t>& manifests() const { return manifests_; }
  // Higher than all that there are, and than those that note_removal() knows of.
  uint64_t next_id() const;
  // Before a checkpoint is removed: its id is not given again.
  kvc_status note_removal(uint64_t id);
  // Of a save that did not come to its manifest and has a journal; 0 = there is none. `named`: its data file
  // has its name.
  uint64_t unfinished_id(bool* named) const;

  // The newest for id 0. NOT_FOUND.
  kvc_status read_manifest(uint64_t id, Manifest* out) const;
  kvc_status write_file(const std::string& name, const std::string& bytes, bool sync);
  kvc_status sync_file(const std::string& name);
  kvc_status rename(const std::string& from, const std::string& to);
  kvc_status sync();

  // `gone`, and the ids of the checkpoints that are older than the newest `keep` of the others (0 = all are
  // kept). Those whose manifests cannot be read do not count, and are not among them.
  std::vector<uint64_t> older_than_newest(uint32_t keep, const std::vector<uint64_t>& gone);
  // Removes manifests, then what no manifest needs: data files, parts. What could not be removed is counted.
  uint64_t remove_manifests(const std::vector<uint64_t>& ids, bool sync);
  // While a manifest cannot be read nobody knows which data files it needs: none of them is removed then, and
  // those that no other manifest needs are counted. `unfinished`: also what a save that was cut short has
  // left.
  uint64_t remove_unneeded(bool unfinished, bool sync);
  // Of a manifest that is there: what it needs is known without reading it.
  void note_manifest(const Manifest& manifest);
  // The error of the first manifest that could not be read, with the ways out of it; KVC_OK: all could.
  kvc_status tell_unread();
  uint64_t removed_bytes() const { return removed_bytes_; }

  // Removes what a save with this id has left behind and the next one cannot use, unless its checkpoint is
  // there. The error text stays.
  void remove_failed(uint64_t id);

  std::string file(const std::string& name) const { return path_ + "/" + name; }
  static std::string manifest_name(uint64_t id);
  static std::string data_name(uint64_t id);
  static std::string journal_name(uint64_t id);
  kvc_status failure(const std::string& name, const char* what, int error) const;

 private:
  struct Needs {
    kvc_status status = KVC_OK;  // of reading the manifest
    std::string error;
    std::vector<uint64_t> files;
  };
  const Needs& needs_of(uint64_t id);
  uint64_t highest_removed() const;

  Files& files_;
  const std::string path_;
  OpenFile folder_, lock_;
  std::vector<uint64_t> manifests_, data_;
  std::vector<uint64_t> journals_;  // ids
  std::vector<std::string> parts_;
  std::map<uint64_t, Needs> needs_;  // of manifests, which never change; this has the lock
  uint64_t removed_bytes_ = 0;
};

}  // namespace kvc
