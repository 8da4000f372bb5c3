// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import java.lang.ref.Reference;

/** Decides on a number of blocks, interval by interval, and logs the decisions: kvc_sizer. Any thread may use it. */
public final class Sizer implements AutoCloseable {
  /**
   * Which number a decision stands on: the last need; the forecast at leadTimeNs; or the larger of both if the need is bursty, else the forecast if
   * the trend is significant, else the level.
   */
  public enum Mode { REACTIVE, PREDICTIVE, HYBRID }

  /** What a decision does with the size. */
  public enum Action { KEEP, GROW, SHRINK }

  /** The number that a decision took: the last need, the forecast, or the level. */
  public enum Basis { LAST, FORECAST, LEVEL }

  /** Why: the need; the change is too small; the last change is too recent for a smaller size; a limit. */
  public enum Reason { NEED, HYSTERESIS, COOLDOWN, LIMIT }

  /** One decision, with all numbers that it stands on: kvc_sizing_decision. */
  public record Decision(long number, long nowNs, long fromBlocks, long toBlocks, Action action, Reason reason, Basis basis, Mode mode, double needed,
      double level, double trend, double forecast, double variation, double wanted) {}

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

  /** Decides on the size for an interval that has ended, logs the decision, and takes its size as the present one. */
  public Decision decide(long nowNs, double neededBlocks) throws KvCacheException {
    return decided((s, decision) -> Native.kvc_sizer_decide(s, nowNs, neededBlocks, decision));
  }

  /** Returns a decision by its number, 0 for the first. */
  public Decision readLog(long number) throws KvCacheException {
    return decided((s, decision) -> Native.kvc_sizer_read_log(s, number, decision));
  }

  private interface Deciding {
    void decide(long sizer, kvc_sizing_decision decision) throws KvCacheException;
  }

  private Decision decided(Deciding deciding) throws KvCacheException {
    long address = handle.enter();
    try (kvc_sizing_decision d = new kvc_sizing_decision()) {
      deciding.decide(address, d);
      return new Decision(d.getNumber(), d.getNow_ns(), d.getFrom_blocks(), d.getTo_blocks(), Action.values()[(int) d.getAction()],
          Reason.values()[(int) d.getReason()], Basis.values()[(int) d.getBasis()], Mode.values()[(int) d.getMode()], d.getNeeded(), d.getLevel(),
          d.getTrend(), d.getForecast(), d.getVariation(), d.getWanted());
    } finally {
      handle.exit();
      Reference.reachabilityFence(this);
    }
  }
}
