// SPDX-License-Identifier: Apache-2.0
// The content oracle: a storage beside the managers in which every committed token's row is made of all that
// its keys and values depend on (namespace, epoch, the tokens and extra keys up to it, the group). What an
// engine would do is done to it: rows are written before their commit, copies carried out as late as allowed,
// blocks that a step in flight may still write are spoiled. So a block handed out, shared, kept or copied
// wrongly shows as a wrong byte. Block ids are those of the model, with which the library's are compared.
#ifndef KVCACHE_TESTS_PROPERTY_BYTES_H_
#define KVCACHE_TESTS_PROPERTY_BYTES_H_

#include <kvcache/storage.h>

#include <set>
#include <string>
#include <vector>

#include "property/model.h"
#include "property/ops.h"

class Bytes {
 public:
  explicit Bytes(const model::Model& model);
  ~Bytes();
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;

  // The keys and values of tokens [committed, count) of an admitted request, `learned` following its own; of
  // state groups the state after all of them, in the place of what the block held.
  void write(const model::Request& request, uint64_t count, const std::vector<int32_t>& learned);
  // External blocks that are not published yet, entry j to be published as position j of a text.
  void write_external(const std::vector<int>& blocks, uint64_t ns, uint64_t group, const model::Text& text);
  void copy(const std::vector<model::Copy>& copies);
  // What single calls leave to be done, blocks to clear and copies: an engine does it when it fetches it, and
  // fetches it before it writes.
  void copy_pending();
  void pending_dropped();  // some of it, perhaps; to be told after every call
  void pending_fetched() { pending_done_.clear(); }
  void zeros_fetched() { zeros_done_.clear(); }
  // Steps in flight may write what they release until they are retired: do so.
  void spoil_fenced();
  // A step writes the blocks that it fills. It fails, with all later ones: they hold nothing.
  void fill(uint64_t step);
  void spoil_filling(uint64_t step);

  // With blocks to be cleared: does none come to a request uncleared that another namespace or a external
  // holder has written? To be asked after every call: requests write to all of their blocks, external holders
  // to all of theirs that are not published.
  std::string check_authors();

  // Every row that the model says is written, of requests and of published blocks; empty if all is right.
  std::string check();

 private:
  struct Row {
    float k[2], v[2];
  };
  static Row row_of(uint64_t chain, uint64_t group);
  std::vector<uint64_t> chains(uint64_t ns, uint64_t epoch, const model::Text& text, uint64_t count) const;
  void put(uint64_t chain, uint64_t group, int block, uint64_t offset);
  void put_published(int block);
  bool is_state(uint64_t group) const {
    return group < model_.config().groups.size() && model_.config().groups[group].state;
  }
  void put_cross(const model::Request& request, bool authors);
  kvc_rows at_slots(std::vector<Row>& of) const;
  void flush();

  const model::Model& model_;
  const uint64_t block_size_;
  kvc_storage* storage_ = nullptr;
  std::set<int> pending_done_;  // destinations of model_.pending
  std::set<int> zeros_done_;    // of model_.zeros
  static constexpr int64_t kNobody = -2, kAnybody = -1;
  std::vector<int64_t> author_;  // per block: the namespace that wrote it, or one of these
  std::vector<int64_t> slots_;   // rows to store or to compare
  std::vector<Row> rows_;
};

#endif  // KVCACHE_TESTS_PROPERTY_BYTES_H_
