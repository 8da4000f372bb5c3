// SPDX-License-Identifier: Apache-2.0
// Rows of devices, streams and storages. What takes a stream stands here twice.
#include <kvcache/resize.h>

#include "api/device.h"
#include "hardening/every_call.h"

namespace kvc::test {
namespace {

bool with_stream(Scene& s) { return kvc_stream_create(device(), &s.made_stream) == KVC_OK; }

void add_streams(std::vector<Call>& calls) {
  calls.push_back(KVC_CALL(kvc_device_read_info, "cpu", &s.device_info).may_be_null({0}));
  calls.push_back(KVC_CALL(kvc_stream_create, "cpu", &s.made_stream).allocating().may_be_null({0}));
  calls.push_back(KVC_CALL(kvc_stream_destroy, std::exchange(s.made_stream, nullptr)).after(with_stream));
  calls.push_back(KVC_CALL(kvc_stream_synchronize, s.stream));
  calls.push_back(KVC_CALL(kvc_stream_wait_event, s.stream, s.event));
  calls.push_back(KVC_CALL(kvc_stream_event_create, nullptr, &s.made_event).allocating().may_be_null({0}));
  calls.push_back(
      KVC_CALL(kvc_stream_event_destroy, std::exchange(s.made_event, nullptr)).after([](Scene& s) {
        return kvc_stream_event_create(nullptr, &s.made_event) == KVC_OK;
      }));
  calls.push_back(KVC_CALL(kvc_stream_event_record, s.event, s.stream));
  calls.push_back(KVC_CALL(kvc_stream_event_query, s.event, &s.done));
  calls.push_back(KVC_CALL(kvc_stream_event_synchronize, s.event));
}

// On the CPU some of these are only refused.
void add_devices(std::vector<Call>& calls) {
  const auto with_memory = [](Scene& s) {
    return kvc_device_allocate(nullptr, KVC_MEMORY_HOST, 4096, &s.made_memory) == KVC_OK;
  };
  calls.push_back(KVC_CALL(kvc_backend_open, "hip", "/nowhere")
                      .answering(KVC_ERROR_NOT_FOUND)
                      .allocating()
                      .may_be_null({1}));
  calls.push_back(KVC_CALL(kvc_backend_properties, "cpu", &s.backend_info).may_be_null({0}));
  calls.push_back(KVC_CALL(kvc_device_allocate, "cpu", KVC_MEMORY_HOST, 4096u, &s.made_memory)
                      .allocating()
                      .may_be_null({0}));
  calls.push_back(KVC_CALL(kvc_device_release, std::exchange(s.made_memory, nullptr))
                      .may_be_null({0})
                      .after(with_memory));
  calls.push_back(KVC_CALL(kvc_device_register, "cpu", s.host_memory, 4096u).may_be_null({0}));
  calls.push_back(KVC_CALL(kvc_device_unregister, "cpu", s.host_memory).may_be_null({0}));
  calls.push_back(KVC_CALL(kvc_device_export_memory, s.made_memory, &s.exported)
                      .answering(KVC_ERROR_UNSUPPORTED)
                      .after(with_memory));
  calls.push_back(KVC_CALL(kvc_device_import_memory, "cpu", &s.exported, &s.made_memory)
                      .answering(KVC_ERROR_INVALID_ARGUMENT)
                      .may_be_null({0}));
  calls.push_back(KVC_CALL(kvc_stream_adopt, "cpu", s.host_memory, 0u, &s.made_stream)
                      .answering(KVC_ERROR_UNSUPPORTED)
                      .allocating()
                      .may_be_null({0, 1}));
  calls.push_back(KVC_CALL(kvc_stream_handle, s.stream, &s.handle).answering(KVC_ERROR_UNSUPPORTED));
  calls.push_back(KVC_CALL(kvc_device_reserve_addresses, "cpu", 4096u, &s.made_memory)
                      .answering(KVC_ERROR_UNSUPPORTED)
                      .may_be_null({0}));
  calls.push_back(
      KVC_CALL(kvc_device_map, s.made_memory, 0u, 1u).answering(KVC_ERROR_NOT_FOUND).after(with_memory));
  calls.push_back(KVC_CALL(kvc_stream_update_tables, s.stream, &s.update).answering(KVC_ERROR_UNSUPPORTED));
}

void add_whole_storages(std::vector<Call>& calls) {
  calls.push_back(KVC_CALL(kvc_storage_create, &s.small_config, &s.made_storage).allocating());
  calls.push_back(
      KVC_CALL(kvc_storage_create, &s.threads_config, &s.made_storage).as("threads").allocating());
  calls.push_back(KVC_CALL(kvc_storage_destroy, std::exchange(s.made_storage, nullptr)).after([](Scene& s) {
    return kvc_storage_create(&s.small_config, &s.made_storage) == KVC_OK;
  }));
  calls.push_back(
      KVC_CALL(kvc_storage_set_attention, s.made_storage, nullptr, nullptr)
          .may_be_null({1, 2})
          .after([](Scene& s) { return kvc_storage_create(&s.small_config, &s.made_storage) == KVC_OK; }));
  calls.push_back(
      KVC_CALL(kvc_storage_copy_tokens, s.storage, s.made_storage, &s.token_copy, 1u)
          .answering(device() == nullptr ? KVC_OK : KVC_ERROR_UNSUPPORTED)
          .after([](Scene& s) { return kvc_storage_create(&s.small_config, &s.made_storage) == KVC_OK; }));
  calls.push_back(KVC_CALL(kvc_storage_properties, s.storage, &s.storage_info));
  calls.push_back(KVC_CALL(kvc_storage_size, &s.storage_config, &s.number, &s.cursor).may_be_null({1, 2}));
  calls.push_back(KVC_CALL(kvc_storage_view, s.storage, KVC_PLANE_K, 0u, &s.view));
  calls.push_back(KVC_CALL(kvc_storage_export_dlpack, s.storage, KVC_PLANE_V, 1u, &s.tensor).allocating());
  calls.push_back(
      KVC_CALL(kvc_storage_runs, s.storage, s.blocks_in[0], nullptr, s.runs.data(), s.runs.size(), &s.count)
          .may_be_null({2}));
}

// A stream of its own, whose arena is empty: what is enqueued takes memory.
void add_rows(std::vector<Call>& calls) {
  calls.push_back(KVC_CALL(kvc_storage_store, s.storage, &s.rows, nullptr).may_be_null({2}));
  calls.push_back(KVC_CALL(kvc_storage_store, s.storage, &s.rows, s.made_stream)
                      .as("stream")
                      .allocating()
                      .may_be_null({2})
                      .after(with_stream));
  calls.push_back(KVC_CALL(kvc_storage_store, s.channels, &s.rows, nullptr).as("channels").may_be_null({2}));
  calls.push_back(
      KVC_CALL(kvc_storage_store, s.storage, &s.rotated_rows, nullptr).as("rotated").may_be_null({2}));
  calls.push_back(KVC_CALL(kvc_storage_store, s.storage, &s.rotated_rows, s.made_stream)
                      .as("rotated in a stream")
                      .allocating()
                      .may_be_null({2})
                      .after(with_stream));
  calls.push_back(KVC_CALL(kvc_storage_gather, s.storage, &s.out_rows, nullptr).may_be_null({2}));
  calls.push_back(KVC_CALL(kvc_storage_gather, s.storage, &s.out_rows, s.made_stream)
                      .as("stream")
                      .allocating()
                      .may_be_null({2})
                      .after(with_stream));
  calls.push_back(KVC_CALL(kvc_storage_discard_blocks, s.storage, 0u, 1u, &s.trimmed).may_be_null({3}));
  calls.push_back(KVC_CALL(kvc_storage_trim, s.storage, &s.trimmed, &s.trimmed_host).may_be_null({1, 2}));
  calls.push_back(KVC_CALL(kvc_storage_measure, s.storage, &s.rows, &s.key_metrics, &s.value_metrics)
                      .may_be_null({2, 3}));
  for (const bool streamed : {false, true}) {
    const size_t first = calls.size();
    const auto stream = [streamed](Scene& s) { return streamed ? s.made_stream : nullptr; };
    const auto add = [&](Call call) { calls.push_back(std::move(call)); };
    add(make_call("kvc_storage_quantize_blocks", kvc_storage_quantize_blocks, [=](Scene& s) {
      return std::tuple(s.channels, s.blocks_in.data(), s.blocks_in.size(), stream(s));
    }));
    add(make_call("kvc_storage_copy_blocks", kvc_storage_copy_blocks, [=](Scene& s) {
      return std::tuple(s.storage, s.moves_in.data(), s.moves_in.size(), stream(s));
    }));
    add(make_call("kvc_storage_swap_out", kvc_storage_swap_out, [=](Scene& s) {
      return std::tuple(s.storage, s.swaps_out.data(), s.swaps_out.size(), s.pages, sizeof s.pages, 0u,
                        stream(s));
    }));
    add(make_call("kvc_storage_swap_in", kvc_storage_swap_in, [=](Scene& s) {
      return std::tuple(s.storage, s.swaps_in.data(), s.swaps_in.size(), s.pages, sizeof s.pages, 0u,
                        stream(s));
    }));
    add(make_call("kvc_storage_zero_blocks", kvc_storage_zero_blocks, [=](Scene& s) {
      return std::tuple(s.storage, s.blocks_in.data(), s.blocks_in.size(), stream(s));
    }));
    add(make_call("kvc_storage_key_bounds", kvc_storage_key_bounds, [=](Scene& s) {
      return std::tuple(s.storage, 1u, s.blocks_in.data(), s.blocks_in.size(), s.bounds.data(), stream(s));
    }));
    add(make_call("kvc_storage_attend", kvc_storage_attend,
                  [=](Scene& s) { return std::tuple(s.storage, &s.attention, stream(s)); }));
    add(make_call("kvc_storage_select_blocks", kvc_storage_select_blocks,
                  [=](Scene& s) { return std::tuple(s.storage, &s.attention, &s.choice, stream(s)); }));
    for (size_t i = first; i < calls.size(); ++i) {
      const bool has_scratch =
          calls[i].function == "kvc_storage_attend" || calls[i].function == "kvc_storage_select_blocks";
      calls[i].optional = {calls[i].function == "kvc_storage_attend"           ? size_t{2}
                           : calls[i].function == "kvc_storage_key_bounds"     ? size_t{5}
                           : calls[i].function.starts_with("kvc_storage_swap") ? size_t{6}
                                                                               : size_t{3}};
      calls[i].allocates = streamed || has_scratch;
      if (streamed) calls[i].variant = "stream", calls[i].prepare = with_stream;
    }
  }
  calls.push_back(KVC_CALL(kvc_storage_attend, s.storage, &s.planned_attention, nullptr)
                      .as("planned")
                      .allocating()
                      .may_be_null({2}));
  calls.push_back(KVC_CALL(kvc_storage_explain, s.storage, &s.attention, &s.attention_info));
}

}  // namespace

void add_storage_calls(std::vector<Call>& calls) {
  add_streams(calls);
  add_devices(calls);
  add_whole_storages(calls);
  add_rows(calls);
}

}  // namespace kvc::test
