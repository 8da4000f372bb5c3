// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import java.nio.ByteBuffer;

/** Follows one number over time: kvc_workload. Any thread may use it. */
public final class Workload extends WorkloadCalls implements AutoCloseable {
  private final Handle handle;

  /**
   * Creates a workload.
   *
   * @param halfLifeNs age at which an observation counts half; 0 = 60 s
   * @param window last observations for mean and variance, 2 .. 65536; 0 = 64
   */
  public Workload(long halfLifeNs, int window) throws KvCacheException {
    Sizes.count("window", window);
    long[] out = new long[1];
    try (kvc_workload_config c = new kvc_workload_config()) {
      c.setHalf_life_ns(halfLifeNs);
      c.setWindow(window);
      Native.kvc_workload_create(c, out);
    }
    handle = new Handle("workload", out[0], Native::kvc_workload_destroy);
    handle.ownedBy(this);
  }

  @Override
  public void close() {
    handle.close();
  }

  /** Forecasts the value horizonNs after the last observation. */
  public double predict(long horizonNs) throws KvCacheException {
    ByteBuffer value = Buffers.bytes(8);
    call(w -> Native.kvc_workload_predict(w, horizonNs, value));
    return value.getDouble(0);
  }

  @Override
  void call(Manager.Call call) throws KvCacheException {
    handle.call(this, call);
  }
}
