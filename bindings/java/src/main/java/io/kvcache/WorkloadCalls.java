// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

/** What {@link Workload} has that follows from the C headers. Written by scripts/generate. */
public abstract class WorkloadCalls {
  WorkloadCalls() {}

  abstract void call(Manager.Call call) throws KvCacheException;

  /**
   * What a workload shows (Workload.read). All 0 before the first observation: kvc_workload_info.
   *
   * @param numObservations So far.
   * @param lastNs Time of the last one.
   * @param last Its value.
   * @param average Exponentially weighted moving average. An observation dt after the last one has the weight a = 1 - 2^(-dt / halfLifeNs).
   * @param level Level and trend of Holt's double exponential smoothing with the same a, which makes it aware of time: level = a * value + (1 - a)
   *     * (level + trend * dt); trend = a * (level - earlier level) / dt + (1 - a) * trend. The second observation sets both.
   * @param trend Per second.
   * @param mean Over the last `window` observations: mean, variance (divided by their number), largest value.
   * @param variance See mean.
   * @param peak See mean.
   * @param rate Observations per second in the window; 0 with one.
   * @param burstiness (s - mean) / (s + mean) with s the standard deviation (Goh and Barabasi, 2008), for values of 0 and more: -1 = constant, 0 =
   *     s equals the mean, towards 1 = bursts. 0 if all are 0.
   * @param dispersion variance / mean; 0 if the mean is 0.
   */
  public record Info(long numObservations, long lastNs, double last, double average, double level, double trend, double mean, double variance,
      double peak, double rate, double burstiness, double dispersion) {
    static Info read(kvc_workload_info i) {
      return new Info(i.getNum_observations(), i.getLast_ns(), i.getLast(), i.getAverage(), i.getLevel(), i.getTrend(), i.getMean(),
          i.getVariance(), i.getPeak(), i.getRate(), i.getBurstiness(), i.getDispersion());
    }
  }

  /**
   * Adds an observation, in O(1). Since 0.3.
   *
   * @param nowNs Its time, later than that of the last one.
   * @param value Finite; its size is at most 1e15.
   * @throws KvCacheException INVALID_ARGUMENT
   */
  public void record(long nowNs, double value) throws KvCacheException {
    call(c -> Native.kvc_workload_record(c, nowNs, value));
  }

  /** Reads the figures, in O(window). Since 0.3. */
  public Info read() throws KvCacheException {
    try (kvc_workload_info info = new kvc_workload_info()) {
      call(c -> Native.kvc_workload_read_info(c, info));
      return Info.read(info);
    }
  }
}
