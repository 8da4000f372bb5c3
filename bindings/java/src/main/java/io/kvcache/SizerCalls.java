// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

/** What {@link Sizer} has that follows from the C headers. Written by scripts/generate. */
public abstract class SizerCalls {
  SizerCalls() {}

  abstract void call(Manager.Call call) throws KvCacheException;

  /** Which number a Sizer stands on. */
  public enum Mode {
    /** The last need. */
    REACTIVE,
    /** The forecast at leadTimeNs. */
    PREDICTIVE,
    /**
     * The larger of both if the need is bursty; else the forecast if the trend is significant; else the level. Bursty: standard deviation / mean
     * of the window is above burstThreshold. Significant: the forecast differs from the level by more than hysteresis * level.
     */
    HYBRID
  }

  /** What a decision does with the size. */
  public enum Action {
    /** It stays. */
    KEEP,
    /** It becomes larger. */
    GROW,
    /** It becomes smaller. */
    SHRINK
  }

  /** The number that a decision took: the last need, the forecast, or the level. */
  public enum Basis {
    /** The last need. */
    LAST,
    /** The forecast at leadTimeNs. */
    FORECAST,
    /** Workload.Info.level. */
    LEVEL
  }

  /** Why a decision is what it is. */
  public enum Reason {
    /** The size follows the need. */
    NEED,
    /** Kept: the change is too small. */
    HYSTERESIS,
    /** Kept: the last change is too recent for a smaller size. */
    COOLDOWN,
    /** minBlocks or maxBlocks decided. */
    LIMIT
  }

  /**
   * One decision, with all numbers that it stands on: kvc_sizing_decision.
   *
   * @param number 0 for the first of the sizer.
   * @param nowNs Its time.
   * @param fromBlocks Size before.
   * @param toBlocks Size from now on.
   * @param action KVC_SIZING_KEEP, GROW or SHRINK.
   * @param reason KVC_SIZING_NEED, ...
   * @param basis KVC_SIZING_BY_LAST, ...
   * @param mode KVC_SIZING_REACTIVE, ...
   * @param needed The need that was given.
   * @param level As Workload.Info.
   * @param trend As Workload.Info, blocks per second.
   * @param forecast At leadTimeNs.
   * @param variation Standard deviation / mean of the window; 0 if the mean is 0.
   * @param wanted The number of the basis with its headroom, before limits.
   */
  public record Decision(long number, long nowNs, long fromBlocks, long toBlocks, Action action, Reason reason, Basis basis, Mode mode,
      double needed, double level, double trend, double forecast, double variation, double wanted) {
    static Decision read(kvc_sizing_decision i) {
      return new Decision(i.getNumber(), i.getNow_ns(), i.getFrom_blocks(), i.getTo_blocks(), Action.values()[(int) i.getAction()],
          Reason.values()[(int) i.getReason()], Basis.values()[(int) i.getBasis()], Mode.values()[(int) i.getMode()], i.getNeeded(), i.getLevel(),
          i.getTrend(), i.getForecast(), i.getVariation(), i.getWanted());
    }
  }

  /**
   * Decides on the size for an interval that has ended, logs the decision, and takes its size as the present one. The rule: wanted = number of the
   * mode * (1 + headroom), rounded up, inside the limits. A change of at most hysteresis * size is not made; a smaller size waits for the
   * cooldown; a larger one never waits. Since 0.3.
   *
   * @param nowNs End of the interval, later than the last one.
   * @param neededBlocks Blocks that the interval needed: those in use and those that refused or waiting requests lack, or the size at which the
   *     curve reaches a hit rate. 0 .. 1e15.
   * @throws KvCacheException INVALID_ARGUMENT
   */
  public Decision decide(long nowNs, double neededBlocks) throws KvCacheException {
    try (kvc_sizing_decision info = new kvc_sizing_decision()) {
      call(c -> Native.kvc_sizer_decide(c, nowNs, neededBlocks, info));
      return Decision.read(info);
    }
  }

  /**
   * Reads a decision of the log, which keeps the last logCapacity of them. Since 0.3.
   *
   * @param number Its number.
   * @throws KvCacheException NOT_FOUND (not made yet, or no longer in the log; the text has the numbers that are)
   */
  public Decision readLog(long number) throws KvCacheException {
    try (kvc_sizing_decision info = new kvc_sizing_decision()) {
      call(c -> Native.kvc_sizer_read_log(c, number, info));
      return Decision.read(info);
    }
  }
}
