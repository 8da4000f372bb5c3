// SPDX-License-Identifier: Apache-2.0
// The labels of a source, checked and escaped.
#pragma once
#include <kvcache/metrics.h>

#include <string>

namespace kvc {

// Sorted by name, so that equal sets give equal texts: name="value",... INVALID_ARGUMENT names the label.
kvc_status write_labels(const kvc_label* labels, size_t num_labels, std::string* out);

}  // namespace kvc
