// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

/** Decides on a number of blocks, interval by interval, and logs the decisions: kvc_sizer. Any thread may use it. */
public final class Sizer extends SizerCalls implements AutoCloseable {
  /** How a sizer decides: kvc_sizer_config, with its defaults for what is not set. */
  public static final class Config {
    private Mode mode = Mode.REACTIVE;
    private long minBlocks, maxBlocks, numBlocks, leadTimeNs, cooldownNs, halfLifeNs;
    private double headroom, hysteresis, burstThreshold;
    private int window, logCapacity;

    /** Which number decides. */
    public Config mode(Mode value) {
      mode = value;
      return this;
    }

    /** Smallest, largest and first size. */
    public Config blocks(long min, long max, long first) {
      minBlocks = min;
      maxBlocks = max;
      numBlocks = first;
      return this;
    }

    /** How far to look ahead, how long a smaller size waits after a change, and the age at which a need counts half. */
    public Config times(long leadTime, long cooldown, long halfLife) {
      leadTimeNs = leadTime;
      cooldownNs = cooldown;
      halfLifeNs = halfLife;
      return this;
    }

    /** Share above the need, share of the size up to which changes are not made, and standard deviation / mean above which a need is bursty. */
    public Config shares(double above, double ignored, double bursty) {
      headroom = above;
      hysteresis = ignored;
      burstThreshold = bursty;
      return this;
    }

    /** Needs for mean and variance, and decisions to remember. */
    public Config memory(int needs, int decisions) {
      window = Sizes.count("needs", needs);
      logCapacity = Sizes.count("decisions", decisions);
      return this;
    }

    private long create() throws KvCacheException {
      long[] out = new long[1];
      try (kvc_sizer_config c = new kvc_sizer_config()) {
        c.setMode(mode.ordinal());
        c.setMin_blocks(minBlocks);
        c.setMax_blocks(maxBlocks);
        c.setNum_blocks(numBlocks);
        c.setLead_time_ns(leadTimeNs);
        c.setCooldown_ns(cooldownNs);
        c.setHalf_life_ns(halfLifeNs);
        c.setHeadroom(headroom);
        c.setHysteresis(hysteresis);
        c.setBurst_threshold(burstThreshold);
        c.setWindow(window);
        c.setLog_capacity(logCapacity);
        Native.kvc_sizer_create(c, out);
      }
      return out[0];
    }
  }

  private final Handle handle;

  /** Creates a sizer. */
  public Sizer(Config config) throws KvCacheException {
    handle = new Handle("sizer", config.create(), Native::kvc_sizer_destroy);
    handle.ownedBy(this);
  }

  @Override
  public void close() {
    handle.close();
  }

  @Override
  void call(Manager.Call call) throws KvCacheException {
    handle.call(this, call);
  }
}
