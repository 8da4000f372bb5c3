// SPDX-License-Identifier: Apache-2.0
// A table of namespaces over memory that fails on demand, opened by identities.
#pragma once
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "base/counting_heap.h"
#include "prefix/namespace_table.h"

namespace kvc {

using Part = std::optional<std::string>;
struct Identity {
  Part model, adapter, tenant;
};

class NamespaceTableTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(table_.create(memory_, arena_, ring_, 2, 5)); }

  static kvc_status open_in(NamespaceTable& table, const Identity& identity, NamespaceId* index) {
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
    return table.open(config, index);
  }
  uint32_t open(const Identity& identity) {
    NamespaceId index{UINT32_MAX};
    EXPECT_EQ(open_in(table_, identity, &index), KVC_OK);
    return index;
  }
  uint32_t open_number(size_t i) { return open({"model " + std::to_string(i), {}, {}}); }
  void close(uint32_t index) {
    if (--table_[index].opens == 0) {
      ++table_[index].opens;
      table_.close(index);
    }
  }

  CountingHeap heap_;
  Memory memory_{heap_.env()};
  Arena arena_{memory_};
  EventRing ring_;
  NamespaceTable table_;
};

}  // namespace kvc
