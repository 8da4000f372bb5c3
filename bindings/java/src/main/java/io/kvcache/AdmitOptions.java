// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.nio.LongBuffer;

/** The options of the admissions of one step, as arrays for C; all null = defaults. close() frees the configs, which are C memory. */
record AdmitOptions(LongBuffer namespaces, kvc_request_config configs, ByteBuffer keys, LongBuffer keyOffsets) implements AutoCloseable {
  private static final AdmitOptions NONE = new AdmitOptions(null, null, null, null);

  static AdmitOptions of(RequestOptions[] list, long admissions) {
    if (list == null || list.length == 0) {
      return NONE;
    }
    if (list.length != admissions) {
      throw new IllegalArgumentException(list.length + " options for " + admissions + " admissions");
    }
    LongBuffer ends = Buffers.longs(list.length + 1).put(0, 0), namespaces = Buffers.longs(list.length);
    int bytes = 0;
    for (int i = 0; i < list.length; ++i) {
      ByteBuffer keys = RequestOptions.keys(list[i]);
      namespaces.put(i, RequestOptions.namespace(list[i]));
      bytes = Math.addExact(bytes, keys == null ? 0 : keys.remaining());
      ends.put(i + 1, bytes / RequestOptions.ExtraKey.BYTES);
    }
    ByteBuffer all = Buffers.bytes(bytes);
    RequestOptions defaults = new RequestOptions();
    for (RequestOptions options : list) {
      if (options != null && RequestOptions.keys(options) != null) {
        all.put(RequestOptions.keys(options).duplicate());
      }
    }
    kvc_request_config configs = Native.new_kvc_request_configs(list.length);
    for (int i = 0; i < list.length; ++i) {
      Native.kvc_request_configs_setitem(configs, i, RequestOptions.config(list[i] == null ? defaults : list[i]));
    }
    Reference.reachabilityFence(defaults);
    Reference.reachabilityFence(list);
    return new AdmitOptions(namespaces, configs, all.flip(), ends);
  }

  @Override
  public void close() {
    if (configs != null) {
      Native.delete_kvc_request_configs(configs);
    }
  }
}
