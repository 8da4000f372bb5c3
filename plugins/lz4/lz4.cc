// SPDX-License-Identifier: Apache-2.0
// The codec lz4: the block format of LZ4. Level 0 and 1 are its fast compressor, negative levels are faster
// still, levels from 2 on its high compressor (LZ4 HC, up to 12). A page is one block, at most 2 GB.
#include <kvcache/plugin.h>
#include <lz4.h>
#include <lz4hc.h>

namespace {

uint64_t bound(uint64_t bytes) {
  return bytes > LZ4_MAX_INPUT_SIZE ? bytes
                                    : static_cast<uint64_t>(LZ4_compressBound(static_cast<int>(bytes)));
}

kvc_status compress(const void* in, uint64_t bytes, void* out, uint64_t capacity, int32_t level,
                    uint64_t* written) {
  if (bytes > LZ4_MAX_INPUT_SIZE) return KVC_ERROR_BUFFER_TOO_SMALL;  // it is kept as it is
  const int size = static_cast<int>(bytes);
  const int room = capacity > LZ4_MAX_INPUT_SIZE ? LZ4_MAX_INPUT_SIZE : static_cast<int>(capacity);
  const auto* from = static_cast<const char*>(in);
  auto* to = static_cast<char*>(out);
  const int count = level >= 2 ? LZ4_compress_HC(from, to, size, room, level)
                               : LZ4_compress_fast(from, to, size, room, level < 0 ? -level : 1);
  if (count <= 0) return KVC_ERROR_BUFFER_TOO_SMALL;
  *written = static_cast<uint64_t>(count);
  return KVC_OK;
}

kvc_status decompress(const void* in, uint64_t in_bytes, void* out, uint64_t bytes) {
  if (in_bytes > LZ4_MAX_INPUT_SIZE || bytes > LZ4_MAX_INPUT_SIZE) return KVC_ERROR_CORRUPT;
  const int count = LZ4_decompress_safe(static_cast<const char*>(in), static_cast<char*>(out),
                                        static_cast<int>(in_bytes), static_cast<int>(bytes));
  return count >= 0 && static_cast<uint64_t>(count) == bytes ? KVC_OK : KVC_ERROR_CORRUPT;
}

constexpr kvc_codec kCodec = {sizeof(kvc_codec), bound, compress, decompress};
constexpr kvc_plugin kPlugin = {
    sizeof(kvc_plugin), KVC_PLUGIN_ABI, 0, "lz4", nullptr, nullptr, &kCodec, nullptr};

}  // namespace

extern "C" __attribute__((visibility("default"))) kvc_status kvc_plugin_entry_v1(const kvc_plugin_host*,
                                                                                 const kvc_plugin** plugin) {
  *plugin = &kPlugin;
  return KVC_OK;
}
