// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.IntBuffer;
import java.nio.LongBuffer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.function.ToLongFunction;

/**
 * Owns the requests of a manager, and plans each step of an engine: kvc_scheduler; see kvcache/scheduler.h. Any thread may use it. While it has
 * requests, make no steps of the manager and change none of its requests by other calls; reads are allowed. It keeps the manager's memory until it is
 * closed.
 */
public final class Scheduler extends SchedulerCalls implements AutoCloseable {
  /** A request that has ended: kvc_ended_request. Its id names nothing any more. */
  public record Ended(long request, Reason reason, int numNewTokens) {
    static List<Ended> read(ByteBuffer from, long count) {
      List<Ended> all = new ArrayList<>();
      for (int i = 0; i < count; ++i) {
        all.add(new Ended(from.getLong(16 * i), Reason.values()[from.getInt(16 * i + 8) - 1], from.getInt(16 * i + 12)));
      }
      return all;
    }
  }

  /** Shape and limits of a scheduler: kvc_scheduler_config. 0 is the default of every number. */
  public static final class Config {
    private final kvc_scheduler_config config = new kvc_scheduler_config();

    /** All defaults. */
    public Config() {
      kvc_scheduler_config owned = config;
      Manager.CLEANER.register(this, owned::delete);
    }

    /** Order of waiting requests, and what must fit. */
    public Config policy(Policy order, Admission fits) {
      config.setPolicy(order.ordinal());
      config.setAdmission(fits.ordinal());
      return this;
    }

    /** Of the first 128 waiting requests, those with the longest cached prefix come first. */
    public Config cacheAware() {
      config.setFlags(config.getFlags() | Native.KVC_SCHEDULER_CACHE_AWARE);
      return this;
    }

    /**
     * The first 128 waiting requests come in the order of a depth-first walk of the tree of their cached prefixes, the branch with the most of them
     * first. Not together with cacheAware.
     */
    public Config depthFirst() {
      config.setFlags(config.getFlags() | Native.KVC_SCHEDULER_DEPTH_FIRST);
      return this;
    }

    /** Admitted requests, and rows of block tables (0 = 256); tokens of a plan (0 = 2048); tokens of one prompt in a plan (0 = as many). */
    public Config limits(int running, int tokens, int chunk) {
      config.setMax_running(Sizes.count("running", running));
      config.setMax_tokens(Sizes.count("tokens", tokens));
      config.setMax_chunk(Sizes.count("chunk", chunk));
      return this;
    }

    /** Plans in flight (0 = 1), and draft tokens of a request in a plan. */
    public Config plans(int inFlight, int drafts) {
      config.setMax_plans(Sizes.count("inFlight", inFlight));
      config.setMax_drafts(Sizes.count("drafts", drafts));
      return this;
    }

    /** Tenants, numbered from 0 (0 = 1), and different adapters of admitted requests (0 = any number). */
    public Config kinds(int tenants, int adapters) {
      config.setMax_tenants(Sizes.count("tenants", tenants));
      config.setMax_adapters(Sizes.count("adapters", adapters));
      return this;
    }

    /** Tokens of encoder inputs in a plan (0 = any number), and of one request with all that it generates (0 = what the manager allows). */
    public Config tokens(long encoder, long request) {
      config.setMax_encoder_tokens(Sizes.count("encoder", encoder));
      config.setMax_request_tokens(Sizes.count("request", request));
      return this;
    }

    /** How long a request may be passed by others (0 = 10 s). */
    public Config maxWaitNs(long time) {
      config.setMax_wait_ns(Sizes.count("maxWaitNs", time));
      return this;
    }

    /** Shares of the blocks: nothing is admitted from the first on, until the second; 0 = never. See {@link Stats#pressure}. */
    public Config watermarks(double high, double low) {
      config.setHigh_watermark(high);
      config.setLow_watermark(low);
      return this;
    }

    /** Of ADAPTIVE: the shortest first from when the waiting prompts have tokens of more than so many plans; 0 = 8. */
    public Config adaptivePlans(int plans) {
      config.setAdaptive_plans(Sizes.count("plans", plans));
      return this;
    }
  }

  /** A request to schedule: kvc_schedule_job, with its defaults for what is not set. */
  public static final class Job {
    private RequestOptions options;
    private long expectedNewTokens, adapter, nowNs;
    private int priority, tenant, flags;
    private ByteBuffer inputs;

    /** Options of the request, without slots, lookahead, headroom and external tokens: plans say what a request gets. */
    public Job options(RequestOptions of) {
      options = of;
      return this;
    }

    /** Your prediction; 0 = the mean of what its tenant's requests got. */
    public Job expectedNewTokens(long tokens) {
      expectedNewTokens = Sizes.count("expectedNewTokens", tokens);
      return this;
    }

    /** PRIORITY: a lower number is served first. */
    public Job priority(int number) {
      priority = number;
      return this;
    }

    /** FAIR: its tenant. */
    public Job tenant(int number) {
      tenant = Sizes.count("tenant", number);
      return this;
    }

    /** Number of its adapter (LoRA); 0 = none. */
    public Job adapter(long number) {
      adapter = number;
      return this;
    }

    /** Inputs that an encoder turns into embeddings: first token and number of tokens of each, in order. See {@link Plan#encoderRuns}. */
    public Job inputs(long... pairs) {
      if (pairs.length % 2 != 0) {
        throw Sizes.invalid("inputs has %d numbers; it needs two for each input", pairs.length);
      }
      inputs = Buffers.bytes(Math.multiplyExact(8, pairs.length));
      for (long number : pairs) {
        inputs.putLong(Sizes.count("inputs", number));
      }
      inputs.flip();
      return this;
    }

    /** It waits for {@link #setReady}. */
    public Job notReady() {
      flags = Native.KVC_JOB_NOT_READY;
      return this;
    }

    /** Its arrival; 0 = the latest time that the scheduler was told. */
    public Job nowNs(long time) {
      nowNs = Sizes.count("nowNs", time);
      return this;
    }
  }

  /**
   * One step of the engine: kvc_plan. Its buffers are memory of the scheduler and read-only; their shapes are in brackets. After finish or close they
   * have no elements, and their methods throw IllegalStateException: the memory is that of a later plan. Do not use views that you made of them.
   */
  public final class Plan {
    private final kvc_plan plan;
    private final Cleaner.Cleanable memory;
    private final long id, stepId;
    private final int numItems;
    private Buffer[] made = new Buffer[14]; // null: finished

    private Plan(kvc_plan filled) {
      plan = filled;
      memory = Manager.CLEANER.register(this, filled::delete);
      id = filled.getPlan_id();
      stepId = filled.getStep_id();
      numItems = (int) filled.getNum_items();
    }

    private void forget() {
      for (Buffer buffer : made) {
        if (buffer != null) {
          buffer.position(0).limit(0);
        }
      }
      made = null;
      memory.clean();
    }

    private Scheduler owner() {
      return Scheduler.this;
    }

    private void check() {
      if (made == null) {
        throw new IllegalStateException("plan " + id + " is finished, and its arrays are those of a later plan: read them before finish");
      }
    }

    private ByteBuffer bytes(int array) {
      ByteBuffer bytes = Native.kvc_plan_bytes(plan, array);
      handle.ownedBy(bytes);
      return bytes.order(ByteOrder.nativeOrder());
    }

    private LongBuffer longs(int array) {
      synchronized (Scheduler.this) {
        check();
        if (made[array] == null) {
          made[array] = bytes(array).asLongBuffer().asReadOnlyBuffer();
        }
        return (LongBuffer) made[array];
      }
    }

    private IntBuffer ints(int array) {
      synchronized (Scheduler.this) {
        check();
        if (made[array] == null) {
          made[array] = bytes(array).asIntBuffer().asReadOnlyBuffer();
        }
        return (IntBuffer) made[array];
      }
    }

    private ByteBuffer flags(int array) {
      synchronized (Scheduler.this) {
        check();
        if (made[array] == null) {
          made[array] = bytes(array).asReadOnlyBuffer();
        }
        return (ByteBuffer) made[array];
      }
    }

    private long number(ToLongFunction<kvc_plan> field) {
      synchronized (Scheduler.this) {
        check();
        return field.applyAsLong(plan);
      }
    }

    /** 1, 2, ...; 0 if the plan has no items. */
    public long id() {
      return id;
    }

    /** Newest step of the manager. */
    public long stepId() {
      return stepId;
    }

    /** Items. 0: nothing can run now. Such a plan is finished already; its buffers are valid until the next plan. */
    public int numItems() {
      return numItems;
    }

    /** Tokens of all items. */
    public int numTokens() {
      return (int) number(kvc_plan::getNum_tokens);
    }

    /** Request of each item [numItems]. */
    public LongBuffer requests() {
      return longs(0);
    }

    /** Its row of {@link #blockTables}, the same from admission to preemption or end [numItems]. */
    public IntBuffer rows() {
      return ints(1);
    }

    /** Position of its first token: so many are written [numItems]. */
    public LongBuffer firstTokens() {
      return longs(2);
    }

    /** Where its tokens begin among those of the plan, and their end [numItems + 1]. */
    public LongBuffer tokenOffsets() {
      return longs(3);
    }

    /** How many of its tokens are drafts, the last ones [numItems]. */
    public IntBuffer numDrafts() {
      return ints(4);
    }

    /** 1 = its result brings tokens [numItems]. */
    public ByteBuffer samples() {
      return flags(5);
    }

    /** 1 = this plan admitted it: its row is new [numItems]. */
    public ByteBuffer isNew() {
      return flags(6);
    }

    /** Block ids; -1 where there is none [groups][maxRunning][row]. Valid until the next plan is made. */
    public IntBuffer blockTables() {
      return ints(7);
    }

    /** Returns a row of the block tables of a group. */
    public IntBuffer row(int group, int row) {
      int stride = (int) number(kvc_plan::getRow_stride), groups = (int) number(kvc_plan::getNum_groups), rows = (int) number(kvc_plan::getNum_rows);
      if (row < 0 || row >= rows || group < 0 || group >= groups) {
        throw new IndexOutOfBoundsException("no row " + row + " of group " + group + "; the plan has " + groups + " groups of " + rows + " rows");
      }
      return blockTables().slice((group * rows + row) * stride, stride);
    }

    /** Where each token of the plan is written [groups][slotStride]. */
    public LongBuffer slots() {
      return longs(8);
    }

    /** Slots of a group: max tokens of a plan. */
    public int slotStride() {
      return (int) number(kvc_plan::getSlot_stride);
    }

    /** (source, destination) pairs of blocks to copy before the step. */
    public IntBuffer copies() {
      return ints(9);
    }

    /** (group, row, column, block): what became different in {@link #blockTables}, without rows of new items. */
    public IntBuffer changes() {
      return ints(10);
    }

    /** More became different than changes has room for: take all of {@link #blockTables}. */
    public boolean wholeTables() {
      return number(kvc_plan::getWhole_tables) != 0;
    }

    /** Requests that gave back their blocks and rows. */
    public LongBuffer preempted() {
      return longs(11);
    }

    /** (item, index of the input) pairs: encoder inputs to encode before the step. */
    public IntBuffer encoderRuns() {
      return ints(12);
    }

    /** Requests that have ended because they cannot run. */
    public List<Ended> ended() {
      ByteBuffer from = flags(13);
      return Ended.read(from.duplicate().order(ByteOrder.nativeOrder()), from.capacity() / 16);
    }

    @Override
    public String toString() {
      return "Plan[plan " + id + ": " + numItems + " items" + (made == null ? ", finished]" : "]");
    }
  }

  final Handle handle;
  private final Offload offload; // null: none
  private final ArrayDeque<Plan> plans = new ArrayDeque<>();
  private Plan empty; // the last plan, if it has no items
  private final LongBuffer offsets;
  private final ByteBuffer room;

  /** Creates the scheduler of a manager. */
  public Scheduler(Manager manager, Config config) throws KvCacheException {
    this(manager, config, null);
  }

  /**
   * The same with an offload of the manager: waiting requests are looked up in its tiers, and those that are preempted are stored. Poll it between plans.
   * It is kept alive until the scheduler is closed, even if it is closed before. null = none.
   */
  public Scheduler(Manager manager, Config config, Offload offload) throws KvCacheException {
    this.offload = offload;
    int maxRunning = config.config.getMax_running() == 0 ? 256 : (int) config.config.getMax_running();
    List<Runnable> ends = new ArrayList<>(); // what is given back
    long[] out = new long[1];
    try {
      long m = manager.handle.enter(), o = 0; // until the scheduler is destroyed
      ends.add(manager.handle::exit);
      if (offload != null) {
        o = offload.handle.enter();
        ends.add(0, offload.handle::exit);
      }
      Native.kvc_scheduler_create(config.config, m, o, out);
    } catch (KvCacheException | RuntimeException error) {
      ends.forEach(Runnable::run);
      throw error;
    } finally {
      Reference.reachabilityFence(config);
      Reference.reachabilityFence(manager);
      Reference.reachabilityFence(offload);
    }
    handle = new Handle("scheduler", out[0], it -> {
      Native.kvc_scheduler_destroy(it);
      ends.forEach(Runnable::run);
    });
    handle.ownedBy(this);
    offsets = Buffers.longs(maxRunning + 1);
    room = Buffers.bytes(16 * maxRunning);
  }

  /** Ends all requests and frees them in the manager. The buffers of plans then have no elements. Do not use views that you made of them. */
  @Override
  public void close() {
    synchronized (this) {
      forget(plans.size());
      forgetEmpty();
    }
    handle.close();
  }

  private void forget(int count) {
    for (int i = 0; i < count; ++i) {
      plans.removeFirst().forget();
    }
  }

  private void forgetEmpty() {
    if (empty != null) {
      empty.forget();
      empty = null;
    }
  }

  @Override
  void call(Manager.Call call) throws KvCacheException {
    handle.call(this, call);
  }

  /**
   * Adds a request, and returns its id. It ends when it has got maxNewTokens.
   *
   * @param job null = all defaults
   */
  public long add(IntBuffer tokens, long maxNewTokens, Job job) throws KvCacheException {
    Sizes.count("maxNewTokens", maxNewTokens);
    Job of = job == null ? new Job() : job;
    long[] id = new long[1];
    call(s -> Native.kvc_scheduler_add(s, RequestOptions.namespace(of.options), tokens, RequestOptions.keys(of.options), RequestOptions.config(of.options),
        maxNewTokens, of.expectedNewTokens, of.priority, of.tenant, of.adapter, of.inputs, of.flags, of.nowNs, id));
    Reference.reachabilityFence(of);
    return id[0];
  }

  /** The same, with tokens that are copied. */
  public long add(int[] tokens, long maxNewTokens, Job job) throws KvCacheException {
    return add(Buffers.copy(tokens), maxNewTokens, job);
  }

  /** Says how many drafts the next plan may add to the decode of each request, for that plan alone. It may take fewer, the first ones. */
  public void setDrafts(LongBuffer requests, IntBuffer numDrafts) throws KvCacheException {
    LongBuffer ids = Sizes.longs("requests", requests, requests.remaining());
    IntBuffer counts = Sizes.ints("numDrafts", numDrafts, ids.remaining());
    call(s -> Native.kvc_scheduler_set_drafts(s, ids, counts));
  }

  /**
   * Makes the next plan.
   *
   * @param nowNs of a monotonic clock, which never goes back; 0 = unchanged
   */
  public synchronized Plan plan(long nowNs) throws KvCacheException {
    Sizes.count("nowNs", nowNs);
    kvc_plan filled = new kvc_plan();
    try {
      call(s -> {
        synchronized (offload == null ? this : offload.one) { // nobody polls it meanwhile
          Native.kvc_scheduler_plan(s, nowNs, filled);
        }
      });
    } catch (KvCacheException | RuntimeException error) {
      filled.close();
      throw error;
    }
    Plan plan = new Plan(filled);
    forgetEmpty();
    if (plan.numItems == 0) {
      empty = plan;
    } else {
      plans.add(plan);
    }
    return plan;
  }

  /** Takes the result of the oldest plan in flight: one token for each item that samples. Returns the requests that have ended with it. */
  public List<Ended> finish(Plan plan, int... tokens) throws KvCacheException {
    return finish(plan, Buffers.copy(tokens), null, null);
  }

  /**
   * Takes the result of the oldest plan in flight, and returns the requests that have ended with it. All kernels of its step have finished, or are
   * ordered before those of later plans.
   *
   * @param tokens sampled tokens
   * @param tokenOffsets [numItems + 1] where the tokens of each item begin, and their end: with drafts the accepted ones and the next; null = one token
   *     for each item that samples, if the plan has no drafts
   * @param stopped [numItems] 1 = the request has ended with these tokens; null = none has
   */
  public synchronized List<Ended> finish(Plan plan, IntBuffer tokens, LongBuffer tokenOffsets, ByteBuffer stopped) throws KvCacheException {
    checkOwner(plan);
    int items = plan.numItems;
    IntBuffer sampled = Buffers.readable(tokens);
    ByteBuffer ends = stopped == null ? null : Sizes.bytes("stopped", stopped, 1, items);
    LongBuffer from = tokenOffsets == null ? null : offsets.clear();
    long end = 0;
    if (from != null) {
      from.put(Sizes.longs("tokenOffsets", tokenOffsets, items + 1)).flip(); // a copy, which nobody changes
      for (int i = 0; i <= items; ++i) {
        end = Long.compareUnsigned(from.get(i), end) > 0 ? from.get(i) : end;
      }
    } else {
      for (int i = 0; i < items && plan.made != null; ++i) {
        end += plan.samples().get(i);
      }
    }
    if (plan.made != null && end != (sampled == null ? 0 : sampled.remaining())) {
      throw Sizes.invalid("tokens has %d tokens; the items of plan %d bring %s: one for each that samples, or what tokenOffsets says",
          sampled == null ? 0 : sampled.remaining(), plan.id, Long.toUnsignedString(end));
    }
    return taken(plan, from, sampled, ends, 0, 1);
  }

  /** Says that the oldest plan in flight was not computed, nor were the later ones: their tokens are planned again. */
  public synchronized void fail(Plan plan) throws KvCacheException {
    checkOwner(plan);
    taken(plan, null, null, null, Native.KVC_RESULT_FAILED, plans.size());
  }

  private void checkOwner(Plan plan) {
    if (plan.owner() != this) {
      throw Sizes.invalid("plan %d is of another scheduler", plan.id);
    }
  }

  private List<Ended> taken(Plan plan, LongBuffer of, IntBuffer sampled, ByteBuffer ends, int flags, int finished) throws KvCacheException {
    long[] count = new long[1];
    call(s -> Native.kvc_scheduler_finish(s, plan.id, plan.numItems, of, sampled, ends, flags, room, count));
    forget(finished);
    return Ended.read(room, count[0]);
  }
}
