// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import java.nio.ByteBuffer;

/** Follows one number over time: kvc_workload. Any thread may use it. */
public final class Workload implements AutoCloseable {
  private final Handle handle;

  /** What a workload shows: kvc_workload_info. Trend and rate are per second. */
  public record Info(long numObservations, long lastNs, double last, double average, double level, double trend, double mean, double variance, double peak,
      double rate, double burstiness, double dispersion) {}

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

  /** Adds an observation, later than the last one. The value is finite and at most 1e15 in size. */
  public void record(long nowNs, double value) throws KvCacheException {
    use(w -> Native.kvc_workload_record(w, nowNs, value));
  }

  /** Returns the figures so far. */
  public Info read() throws KvCacheException {
    try (kvc_workload_info i = new kvc_workload_info()) {
      use(w -> Native.kvc_workload_read_info(w, i));
      return new Info(i.getNum_observations(), i.getLast_ns(), i.getLast(), i.getAverage(), i.getLevel(), i.getTrend(), i.getMean(), i.getVariance(), i.getPeak(),
          i.getRate(), i.getBurstiness(), i.getDispersion());
    }
  }

  /** Forecasts the value horizonNs after the last observation. */
  public double predict(long horizonNs) throws KvCacheException {
    ByteBuffer value = Buffers.bytes(8);
    use(w -> Native.kvc_workload_predict(w, horizonNs, value));
    return value.getDouble(0);
  }

  private void use(Manager.Call call) throws KvCacheException {
    handle.call(this, call);
  }
}
