// SPDX-License-Identifier: Apache-2.0
// Positions to which readers return after others have changed the tree. A reader keeps nothing alive: if its
// position dies, it falls back to the parent. So no reader decides whether a position lives, and readers are
// no part of the tree's content. Not thread-safe: under the lock of the tree.
#pragma once
#include "base/ids.h"

namespace kvc {

struct TreeReader {
  NodeId at = kNoNode;  // a root or kNoNode: no position
  // Of a walk: the child of `at` that comes next. If it dies, the one behind it; and if `at` dies, the one
  // behind `at`.
  NodeId behind = kNoNode;
  // Of a walk: nodes that have come before their siblings. Those that find no room are counted, too.
  NodeId* moved = nullptr;
  size_t num_moved = 0, moved_capacity = 0;
  TreeReader* next = nullptr;
};

class TreeReaders {
 public:
  bool any() const { return first_ != nullptr; }
  void join(TreeReader& reader) {
    reader.next = first_;
    first_ = &reader;
  }
  void leave(TreeReader& reader) {
    TreeReader** link = &first_;
    while (*link != &reader) link = &(*link)->next;
    *link = reader.next;
  }
  // A node dies. `behind`: its next sibling, which may be dead too, and wait for its end. Out of line:
  // readers are rare.
  [[gnu::noinline]] void fall_back(NodeId dead, NodeId parent, NodeId behind) {
    for (TreeReader* reader = first_; reader != nullptr; reader = reader->next) {
      if (reader->at != dead && reader->behind != dead) continue;
      reader->behind = behind;
      if (reader->at == dead) reader->at = parent;
    }
  }
  // A node comes before its siblings.
  void note_moved(NodeId node) {
    for (TreeReader* reader = first_; reader != nullptr; reader = reader->next) {
      if (reader->num_moved < reader->moved_capacity) reader->moved[reader->num_moved] = node;
      ++reader->num_moved;
    }
  }

 private:
  TreeReader* first_ = nullptr;
};

}  // namespace kvc
