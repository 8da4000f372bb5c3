// SPDX-License-Identifier: Apache-2.0
// Who is told the calls of a test's engine: those that succeeded, after them, and plans also before.
#pragma once
#include <kvcache/scheduler.h>

#include <vector>

namespace kvc::test {

class Listener {
 public:
  virtual ~Listener() = default;
  virtual void added(uint64_t id, const kvc_schedule_job& job, const std::vector<int32_t>& prompt,
                     size_t space) = 0;
  virtual void aborted(uint64_t id) = 0;
  virtual void made_ready(uint64_t id) = 0;
  virtual void got_priority(uint64_t id, int32_t priority) = 0;
  virtual void got_drafts(uint64_t id, uint32_t count) = 0;
  virtual void got_weight(uint32_t /*tenant*/, double /*weight*/) {}
  virtual void got_quota(size_t /*space*/, uint64_t /*min_blocks*/, uint64_t /*max_blocks*/) {}
  virtual void plans(uint64_t /*now*/) {}
  virtual void planned(const kvc_plan& plan, uint64_t now) = 0;
  virtual void finished(const kvc_plan_result& result) = 0;
  virtual void failed() = 0;
};

}  // namespace kvc::test
