// SPDX-License-Identifier: Apache-2.0
// Keys as a caller has them, ordered and linked for a view.
#pragma once
#include <gtest/gtest.h>

#include <vector>

#include "prefix/extra_keys.h"

namespace kvc {

class Ordered {
 public:
  explicit Ordered(const std::vector<kvc_extra_key>& keys) : keys_(keys.size()) {
    keys_.resize(order_keys(keys.data(), keys.size(), keys_.data()));
    EXPECT_EQ(link_keys(keys_.data(), 0, keys_.size()), kNoToken);
  }
  KeyList list() const { return {keys_.data(), keys_.size()}; }

 private:
  std::vector<ExtraKey> keys_;
};

}  // namespace kvc
