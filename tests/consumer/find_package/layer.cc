// SPDX-License-Identifier: Apache-2.0
// Uses the installed C++ headers: a request, its key and value in a storage, and attention to them.
#include <cstdio>
#include <kvcache.hpp>
#include <vector>

int main() try {
  constexpr uint32_t kDim = 4;
  kvc::Manager m(4);
  auto config = kvc::make<kvc_storage_config>();
  config.num_blocks = 4, config.num_layers = 1, config.num_heads = 1, config.head_dim = kDim;
  kvc::Storage storage(config);
  kvc::Stream stream("cpu");
  const int32_t prompt[] = {7};
  kvc::Request request = m.allocate(prompt);
  int64_t slot[1];
  int32_t table[1];
  request.slots(slot, 0);
  request.table(table);

  std::vector<float> k(kDim, 1), v(kDim, 2), out(kDim);
  auto rows = kvc::make<kvc_rows>();
  rows.num_tokens = 1, rows.slots = slot, rows.k = k.data(), rows.v = v.data();
  storage.store(rows, stream);
  request.commit(1);
  const uint64_t offsets[] = {0, 1}, length = 1;
  auto attention = kvc::make<kvc_attention>();
  attention.q = k.data(), attention.out = out.data();
  attention.num_requests = 1, attention.num_q_heads = 1, attention.q_offsets = offsets,
  attention.kv_lens = &length;
  attention.block_tables = table, attention.table_stride = 1;
  storage.attend(attention, stream);
  stream.synchronize();
  return out == v ? 0 : 1;
} catch (const kvc::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
