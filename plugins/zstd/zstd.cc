// SPDX-License-Identifier: Apache-2.0
// The codec zstd: a frame of Zstandard a page. Level 0 is 1, which keeps up with disks; up to 22. Each thread
// keeps its contexts.
#include <kvcache/plugin.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <memory>

namespace {

struct Free {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

uint64_t bound(uint64_t bytes) { return ZSTD_compressBound(bytes); }

kvc_status compress(const void* in, uint64_t bytes, void* out, uint64_t capacity, int32_t level,
                    uint64_t* written) {
  thread_local const std::unique_ptr<ZSTD_CCtx, Free> context(ZSTD_createCCtx());
  if (context == nullptr) return KVC_ERROR_OUT_OF_MEMORY;
  const int wanted = level == 0 ? 1 : std::clamp(level, ZSTD_minCLevel(), ZSTD_maxCLevel());
  const size_t count = ZSTD_compressCCtx(context.get(), out, capacity, in, bytes, wanted);
  if (ZSTD_isError(count)) {
    return ZSTD_getErrorCode(count) == ZSTD_error_memory_allocation ? KVC_ERROR_OUT_OF_MEMORY
                                                                    : KVC_ERROR_BUFFER_TOO_SMALL;
  }
  *written = count;
  return KVC_OK;
}

kvc_status decompress(const void* in, uint64_t in_bytes, void* out, uint64_t bytes) {
  thread_local const std::unique_ptr<ZSTD_DCtx, Free> context(ZSTD_createDCtx());
  if (context == nullptr) return KVC_ERROR_OUT_OF_MEMORY;
  const size_t count = ZSTD_decompressDCtx(context.get(), out, bytes, in, in_bytes);
  if (ZSTD_isError(count) && ZSTD_getErrorCode(count) == ZSTD_error_memory_allocation)
    return KVC_ERROR_OUT_OF_MEMORY;
  return !ZSTD_isError(count) && count == bytes ? KVC_OK : KVC_ERROR_CORRUPT;
}

constexpr kvc_codec kCodec = {sizeof(kvc_codec), bound, compress, decompress};
constexpr kvc_plugin kPlugin = {
    sizeof(kvc_plugin), KVC_PLUGIN_ABI, 0, "zstd", nullptr, nullptr, &kCodec, nullptr};

}  // namespace

extern "C" __attribute__((visibility("default"))) kvc_status kvc_plugin_entry_v1(const kvc_plugin_host*,
                                                                                 const kvc_plugin** plugin) {
  *plugin = &kPlugin;
  return KVC_OK;
}
