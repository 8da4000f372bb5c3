// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

/** What {@link Scheduler} has that follows from the C headers. Written by scripts/generate. */
public abstract class SchedulerCalls {
  SchedulerCalls() {}

  abstract void call(Manager.Call call) throws KvCacheException;

  /** The order in which a Scheduler admits waiting requests. Equal ones are ordered by arrival. */
  public enum Policy {
    /** By arrival. */
    FCFS,
    /** By priority, the lowest number first. */
    PRIORITY,
    /** The shortest first: by tokens of the prompt and expected new tokens. */
    SHORTEST,
    /**
     * Fair shares of tenants: deficit round robin. A tenant in its turn gets weight * maxTokens tokens of credit, and pays for each token that is
     * planned for it; its requests are admitted while it has credit. Within a tenant by arrival.
     */
    FAIR,
    /**
     * FCFS; SHORTEST from when the waiting prompts have more than adaptivePlans * maxTokens tokens until they have less than a quarter of that.
     * Scheduler.Stats tells which, and how often it changed.
     */
    ADAPTIVE
  }

  /** What must fit, besides the first chunk, when a Scheduler admits a request. */
  public enum Admission {
    /** Nothing more. The most requests run, and most are preempted. */
    CHUNK,
    /** All its known tokens. */
    PROMPT,
    /**
     * The predicted peak: the most blocks that the running requests and it will hold at one time, if each gets its expected new tokens. Blocks
     * that requests share count for each of them.
     */
    PEAK,
    /** The worst peak: the same, if each gets maxNewTokens. Nothing is preempted then. */
    WORST
  }

  /** Why a request of a Scheduler has ended. */
  public enum Reason {
    /** kvc_plan_result.stopped. */
    STOPPED,
    /** It has maxNewTokens, or maxRequestTokens of the scheduler. */
    LENGTH,
    /**
     * It lacks blocks although no other request runs (or none of its namespace, whose quota refuses them): the pool or the quota is too small for
     * it, or something else holds its blocks. At once, whoever runs, if it is NEVER_FITS.
     */
    NO_SPACE
  }

  /** State of a request of a Scheduler. */
  public enum State {
    /** Waits for Scheduler.setReady. */
    NOT_READY,
    /** Waits to be admitted. */
    WAITING,
    /** Waits for the offload. */
    LOADING,
    /** Admitted. */
    RUNNING
  }

  /**
   * State of a scheduled request: kvc_scheduled_info.
   *
   * @param state KVC_SCHEDULED_*
   * @param row Of blockTables; -1 = none.
   * @param numTokens Known tokens.
   * @param numPrompt Tokens of the prompt.
   * @param numPlanned Tokens that are computed, cached, or in flight.
   * @param numCached Tokens of the hit at the last admission.
   * @param numPreemptions So far.
   * @param arrivalNs As told.
   * @param priority As set.
   * @param tenant As set.
   * @param waitReason KVC_WAIT_*
   */
  public record Info(State state, int row, long numTokens, long numPrompt, long numPlanned, long numCached, long numPreemptions, long arrivalNs,
      int priority, int tenant, int waitReason) {
    static Info read(kvc_scheduled_info i) {
      return new Info(State.values()[(int) i.getState() - 1], (int) i.getRow(), i.getNum_tokens(), i.getNum_prompt(), i.getNum_planned(),
          i.getNum_cached(), i.getNum_preemptions(), i.getArrival_ns(), (int) i.getPriority(), (int) i.getTenant(), (int) i.getWait_reason());
    }
  }

  /**
   * Counters since creation, and gauges: kvc_scheduler_stats.
   *
   * @param waiting Gauges. waiting: all that are not admitted.
   * @param running Gauges. waiting: all that are not admitted.
   * @param plansInFlight Gauges. waiting: all that are not admitted.
   * @param added Requests.
   * @param aborted Requests.
   * @param ended Requests.
   * @param plans Plans with items.
   * @param promptTokens Planned tokens of prompts, and of recomputation.
   * @param decodeTokens Planned tokens of decodes, without drafts.
   * @param draftTokens Planned drafts.
   * @param acceptedDrafts Of them accepted.
   * @param admissions First ones.
   * @param cachedTokens Tokens of their hits.
   * @param preemptions Requests that gave their blocks back.
   * @param recomputedTokens Tokens that were computed once more after a preemption or a failed plan.
   * @param refusedSpace Attempts to admit a request that ended so.
   * @param refusedPeak Attempts to admit a request that ended so.
   * @param refusedAdapter Attempts to admit a request that ended so.
   * @param refusedEncoder Attempts to admit a request that ended so.
   * @param refusedQuota Attempts to admit a request that ended so.
   * @param refusedFilling Attempts to admit a request that ended so.
   * @param aged Requests that reached maxWaitNs.
   * @param policyChanges ADAPTIVE.
   * @param pressureChanges Times that pressure became high.
   * @param policy Gauge: the order in force.
   * @param pressure Gauge: true = high.
   */
  public record Stats(long waiting, long running, long plansInFlight, long added, long aborted, long ended, long plans, long promptTokens,
      long decodeTokens, long draftTokens, long acceptedDrafts, long admissions, long cachedTokens, long preemptions, long recomputedTokens,
      long refusedSpace, long refusedPeak, long refusedAdapter, long refusedEncoder, long refusedQuota, long refusedFilling, long aged,
      long policyChanges, long pressureChanges, Policy policy, boolean pressure) {
    static Stats read(kvc_scheduler_stats i) {
      return new Stats(i.getWaiting(), i.getRunning(), i.getPlans_in_flight(), i.getAdded(), i.getAborted(), i.getEnded(), i.getPlans(),
          i.getPrompt_tokens(), i.getDecode_tokens(), i.getDraft_tokens(), i.getAccepted_drafts(), i.getAdmissions(), i.getCached_tokens(),
          i.getPreemptions(), i.getRecomputed_tokens(), i.getRefused_space(), i.getRefused_peak(), i.getRefused_adapter(), i.getRefused_encoder(),
          i.getRefused_quota(), i.getRefused_filling(), i.getAged(), i.getPolicy_changes(), i.getPressure_changes(),
          Policy.values()[(int) i.getPolicy()], i.getPressure() != 0);
    }
  }

  /**
   * Ends a request, also one of a plan in flight: its blocks are given back with the next plan, and become available when the plans in flight have
   * finished. Since 0.3.
   *
   * @throws KvCacheException NOT_FOUND (it has ended)
   */
  public void abort(long request) throws KvCacheException {
    call(c -> Native.kvc_scheduler_abort(c, request));
  }

  /**
   * Says that what a request of KVC_JOB_NOT_READY waits for is there. Succeeds also if it is ready. Since 0.3.
   *
   * @throws KvCacheException NOT_FOUND
   */
  public void setReady(long request) throws KvCacheException {
    call(c -> Native.kvc_scheduler_set_ready(c, request));
  }

  /**
   * Changes a priority. Since 0.3.
   *
   * @throws KvCacheException NOT_FOUND
   */
  public void setPriority(long request, int priority) throws KvCacheException {
    call(c -> Native.kvc_scheduler_set_priority(c, request, priority));
  }

  /**
   * Sets the weight of a tenant, 1 at first. Since 0.3.
   *
   * @param weight 2^-16 to 65,536.
   * @throws KvCacheException INVALID_ARGUMENT
   */
  public void setWeight(int tenant, double weight) throws KvCacheException {
    Sizes.count("tenant", tenant);
    call(c -> Native.kvc_scheduler_set_weight(c, tenant, weight));
  }

  /**
   * State of a request. Since 0.3.
   *
   * @throws KvCacheException NOT_FOUND
   */
  public Info info(long request) throws KvCacheException {
    try (kvc_scheduled_info info = new kvc_scheduled_info()) {
      call(c -> Native.kvc_scheduler_request_info(c, request, info));
      return Info.read(info);
    }
  }

  /**
   * Counters and gauges. Since 0.3.
   *
   * @throws KvCacheException INVALID_ARGUMENT
   */
  public Stats stats() throws KvCacheException {
    try (kvc_scheduler_stats info = new kvc_scheduler_stats()) {
      call(c -> Native.kvc_scheduler_read_stats(c, info));
      return Stats.read(info);
    }
  }

  /**
   * Checks every invariant of the state, in O(requests). Since 0.3.
   *
   * @throws KvCacheException CORRUPT (the text has the first broken invariant)
   */
  public void check() throws KvCacheException {
    call(c -> Native.kvc_scheduler_check(c));
  }
}
