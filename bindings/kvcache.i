// SPDX-License-Identifier: Apache-2.0
// The C ABI for other languages: SWIG reads kvcache.h and include/kvcache/*.h themselves, under the names of C, so
// that no signature is written twice. roles.i and this file say what C leaves open: which pointer and count belong
// together, and which pointers are results. <language>/typemaps.i says what that means there:
//
//   KVC_IN, KVC_OUT(type, element, pointer, count)  an array of the caller that is read or written in place
//   KVC_IN_RECORDS, KVC_OUT_RECORDS(type, pointer, count)  an array of frozen structs, or of a type named elsewhere, as bytes
//   KVC_IN_ARRAY, KVC_OUT_ARRAY(type, element, pointer)  an array whose length follows from other arguments: the
//                                                   hand-written layer checks it; element BYTES = as bytes
//   KVC_RESULT(type, name)                          a scalar result
//   KVC_OBJECT(type, name)                          an object with its destroy function
//   KVC_OBJECTS(type, pointer, count)               an array of objects, such as the storages of all groups; NULL = none
//   KVC_STRUCT(type)                                a struct that the caller fills in or reads
//   KVC_LONG_CALL(name)                             a call beside which other threads run
//   kvc_status                                      an error with its text, copied in the same native call
//
// What is generated is internal to each binding; users see the hand-written layer over it.
%module(package="kvcache", threads="1") native

%{
#include <kvcache.h>
#include <kvcache/index.h>
#include <stdlib.h>
#include <string.h>
%}

%include <stdint.i>

#if defined(SWIGPYTHON)
%include "python/typemaps.i"
#elif defined(SWIGGO)
%include "go/typemaps.i"
#elif defined(SWIGJAVA)
%include "java/typemaps.i"
#endif

// The call of the library is not wrapped; that of calls.i or flat_calls.i is, under its name.
%define KVC_INSTEAD(CALL, NAME)
%ignore CALL;
%rename(CALL) NAME;
%enddef

// ---- roles ----------------------------------------------------------------------------------------
// roles.i has what the types tell (interface.py): arrays and their sizes, results, objects, structs, and what no language reaches.
%include "roles.i"

// Arrays whose length follows from other arguments, though a size stands behind them, or they look like a result.
KVC_IN_ARRAY(int32_t, INT32, block_tables)
KVC_IN_ARRAY(float, BYTES, lses)
KVC_OUT_ARRAY(int32_t, INT32, depths)
KVC_OUT_ARRAY(void, BYTES, x)
KVC_IN_ARRAY(float, BYTES, in)
KVC_IN_ARRAY(float, BYTES, scales)
KVC_OUT_ARRAY(int32_t, INT32, path)
KVC_OUT_ARRAY(uint64_t, UINT64, num_accepted)
KVC_OUT_ARRAY(int32_t, INT32, next_tokens)
KVC_IN_ARRAY(int32_t, INT32, p_ids)
KVC_IN_ARRAY(int32_t, INT32, q_ids)
KVC_OUT_ARRAY(uint64_t, UINT64, ends)
KVC_OUT_ARRAY(uint64_t, UINT64, acceptance)
KVC_OUT_ARRAY(int32_t, INT32, best_length)
KVC_OUT_ARRAY(uint32_t, BYTES, matched)
KVC_OUT_ARRAY(uint64_t, UINT64, worker_numbers)

#ifndef SWIGGO
KVC_OBJECT(kvc_stream, stream)
KVC_OBJECT(kvc_stream_event, event)
#endif

// Structs that only other structs point to, and these pointers.
KVC_STRUCT(kvc_pool_config)
KVC_STRUCT(kvc_group_config)
%rename("%s") kvc_manager_config::pools;
%rename("%s") kvc_manager_config::groups;

// ---- fields and constants that languages do not have, or only read --------------------------------

%ignore struct_size;
%ignore reserved;
%rename("%s") kvc_pool_info::reserved; // a count

%immutable kvc_replay_info::text;
%immutable kvc_device_info::name; // texts of the library
%immutable kvc_device_info::architecture;
%immutable kvc_backend_info::path;
%immutable kvc_backend_info::architectures;
%immutable kvc_backend_info::remark;
%immutable kvc_checkpoint_info::content;
%immutable kvc_checkpoint_info::codec;
%immutable kvc_checkpoint_info::model;
%immutable kvc_checkpoint_info::weights;
%immutable kvc_page_file_info::fingerprint;
%immutable kvc_page_file_info::key;
%immutable kvc_page_file_info::description;
%immutable kvc_offload_tier_stats::difference;

%ignore KVC_ALL_NAMESPACES; // each language has its own constant
%ignore KVC_NO_RETENTION;
%ignore KVC_PRIORITY_DEMOTED;
%ignore KVC_INDEX_ALL_MEDIA;
// A plug-in is written in C. Other languages open it.
%ignore KVC_PLUGIN_ABI;
%ignore KVC_PLUGIN_ENTRY;
%ignore KVC_PAGE_HEADER_BYTES;
%ignore kvc_plugin_entry;
// Sizes of arrays.
%ignore kvc_storage_config::memory_size;
%ignore kvc_rows::num_tokens;
%ignore kvc_rows::block_table_size;
%ignore kvc_rows::rope_table_rows;
%ignore kvc_attention_launch::plan_bytes;
%ignore kvc_attention_launch::workspace_bytes;
%ignore kvc_rope_rows::num_tokens;
%ignore kvc_rope_rows::table_rows;
// Arrays in structs.
%ignore kvc_model::window_layers;
%ignore kvc_model::state_layers;
%ignore kvc_view::shape;
%ignore kvc_view::strides;
%ignore kvc_present; // of calls.i
// As eight bytes a word, little-endian: a word is the same in every language.
%ignore kvc_request_config::cross_digest;
%extend kvc_request_config {
  void set_cross_digest(uint64_t first, uint64_t second, uint64_t third, uint64_t fourth) {
    const uint64_t words[4] = {first, second, third, fourth};
    memcpy($self->cross_digest, words, sizeof words);
  }
}

// ---- not offered to every language -----------------------------------------------------------------------------
// A stream uses the caller's arrays after the call, which Go does not allow. A goroutine does the same there.

#ifdef SWIGGO
%rename("$ignore", regextarget=1) "^kvc_stream_";
%ignore kvc_stream;
// Nor do jobs: Go waits for them in the same call (go/tiers.i).
%ignore kvc_tier_cancel;
%ignore kvc_tier_poll;
%ignore kvc_tier_event_fd;
%ignore kvc_tier_run_one;
%include "go/tiers.i"
#endif
// Addresses on devices, of streams and of functions: only C can use them. Arrays on a device are passed by DLPack.
%ignore kvc_device_allocate;
%ignore kvc_device_release;
%ignore kvc_device_reserve_addresses;
%ignore kvc_device_map;
%ignore kvc_device_register;
%ignore kvc_device_unregister;
%ignore kvc_device_export_memory;
%ignore kvc_device_import_memory;
%ignore kvc_memory_handle;
%ignore kvc_stream_update_tables;
%ignore kvc_upload;
%ignore kvc_table_update;
%ignore kvc_storage_set_attention;
%ignore kvc_attention_kernel;
%ignore kvc_storage_export_dlpack; // Python has a call of its own

#ifndef SWIGPYTHON
%ignore kvc_stream_adopt;
%ignore kvc_stream_handle;
%include "waits.i"
#endif

#ifdef SWIGJAVA
%include "java/tiers.i"
#endif

%include "calls.i"
%include "flat_calls.i"
%include "headers.i"
