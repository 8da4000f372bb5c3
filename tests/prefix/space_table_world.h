// SPDX-License-Identifier: Apache-2.0
// A table of namespaces over memory that fails on demand, opened by identities.
#pragma once
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "base/counting_heap.h"
#include "prefix/space_table.h"

namespace kvc {

using Part = std::optional<std::string>;
struct Identity {
  Part model, adapter, tenant;
};

class SpaceTableTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(table_.create(memory_, arena_, 2, 5)); }

  static kvc_status open_in(SpaceTable& table, const Identity& identity, uint32_t* slot) {
    kvc_namespace_config config = {};
    config.struct_size = sizeof config;
    const auto set = [](const Part& part, const void*& data, size_t& size) {
      if (!part.has_value()) return;
      data = part->data();
      size = part->size();
    };
    set(identity.model, config.model, config.model_size);
    set(identity.adapter, config.adapter, config.adapter_size);
    set(identity.tenant, config.tenant, config.tenant_size);
    return table.open(config, slot);
  }
  uint32_t open(const Identity& identity) {
    uint32_t slot = UINT32_MAX;
    EXPECT_EQ(open_in(table_, identity, &slot), KVC_OK);
    return slot;
  }
  uint32_t open_number(size_t i) { return open({"model " + std::to_string(i), {}, {}}); }
  void close(uint32_t slot) {
    if (--table_[slot].opens == 0) {
      ++table_[slot].opens;
      table_.close(slot);
    }
  }

  CountingHeap heap_;
  Memory memory_{heap_.env()};
  Arena arena_{memory_};
  SpaceTable table_;
};

}  // namespace kvc
