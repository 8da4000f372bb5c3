// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.IntBuffer;
import java.nio.LongBuffer;
import java.util.Map;
import java.util.stream.IntStream;

/**
 * One engine step for a whole batch: kvc_step. Its buffers are memory of the library, which stays from step to step. Fill them in place, set the
 * counts, call {@link #run}, and read the results. Their shapes are in brackets; max... are the sizes of {@link Limits}. After close they have no
 * elements. One thread at a time may use a step.
 *
 * <p>{@link #run} refuses entries that are not set. Until you set an entry, commitTokens, extendTokens, admitTokens, truncateLengths and admitOffsets (from
 * 1 on) hold -1, and rows Integer.MIN_VALUE. {@link #run} consumes the ids, lengths and admitOffsets that it reads: they are unset afterwards, so
 * keep your own copy of what you need later. All other inputs keep their values from step to step.
 *
 * <p>{@link #use} switches optional arrays off and on. At first {@link #commitOffsets} and {@link #commitTokens} (commits bring no ids) and
 * {@link #rows} (item i has row i) are off. The method of a buffer that is off throws IllegalStateException; a buffer that you kept has the limit 0.
 * Do not set limits yourself.
 */
public final class Step implements AutoCloseable {
  /**
   * Sizes of the arrays of a step: kvc_step_limits. 0 gives an empty array, unless a default is named.
   *
   * @param maxRequests running requests
   * @param maxTokens extended tokens of a step, and separately tokens of commits
   * @param maxRows rows of the block tables; 0 = maxRequests + maxAdmissions
   * @param rowStride entries per row: blocks of the longest request; 0 = no tables
   * @param maxFrees each of frees, preempts and truncates
   * @param maxAdmissions new and re-admitted requests
   * @param maxPromptTokens tokens of all new requests of a step
   */
  public record Limits(long maxRequests, long maxTokens, long maxRows, long rowStride, long maxFrees, long maxAdmissions, long maxPromptTokens) {
    /** Refuses negative sizes. */
    public Limits {
      Sizes.count("maxRequests", maxRequests);
      Sizes.count("maxTokens", maxTokens);
      Sizes.count("maxRows", maxRows);
      Sizes.count("rowStride", rowStride);
      Sizes.count("maxFrees", maxFrees);
      Sizes.count("maxAdmissions", maxAdmissions);
      Sizes.count("maxPromptTokens", maxPromptTokens);
    }
  }

  private final Manager manager;
  private final long address;
  private final Handle handle;
  private final ByteBuffer step;
  private int off; // one bit for each array that is switched off

  private final LongBuffer frees, preempts, truncates, truncateLengths, requests, committed, commitOffsets, extendOffsets, admitRequests,
      admitOffsets, admitNamespaces, admitSlots, admitted, cached, numBlocks, slots;
  private final IntBuffer commitTokens, extendTokens, admitTokens, rows, status, blockTables, copies, changes;

  /** Creates a step with all its arrays. */
  public Step(Manager manager, Limits limits) throws KvCacheException {
    this.manager = manager;
    kvc_step_limits sizes = new kvc_step_limits();
    long m = manager.handle.enter(); // until the step is destroyed
    try {
      sizes.setMax_requests(limits.maxRequests);
      sizes.setMax_tokens(limits.maxTokens);
      sizes.setMax_rows(limits.maxRows == 0 ? limits.maxRequests + limits.maxAdmissions : limits.maxRows);
      sizes.setRow_stride(limits.rowStride);
      sizes.setMax_frees(limits.maxFrees);
      sizes.setMax_admissions(limits.maxAdmissions);
      sizes.setMax_prompt_tokens(limits.maxPromptTokens);
      long[] out = new long[1];
      Native.kvc_step_create(m, sizes, out);
      address = out[0];
    } catch (KvCacheException | RuntimeException error) {
      manager.handle.exit();
      throw error;
    } finally {
      sizes.close();
    }
    Handle owner = manager.handle;
    handle = new Handle("step", address, it -> {
      Native.kvc_step_destroy(it);
      owner.exit();
    });
    handle.ownedBy(this);
    step = bytes(-1);
    frees = longs(Native.KVC_STEP_FREES);
    preempts = longs(Native.KVC_STEP_PREEMPTS);
    truncates = longs(Native.KVC_STEP_TRUNCATES);
    truncateLengths = longs(Native.KVC_STEP_TRUNCATE_LENGTHS);
    requests = longs(Native.KVC_STEP_REQUESTS);
    committed = longs(Native.KVC_STEP_COMMITTED);
    commitOffsets = longs(Native.KVC_STEP_COMMIT_OFFSETS);
    commitTokens = ints(Native.KVC_STEP_COMMIT_TOKENS);
    extendOffsets = longs(Native.KVC_STEP_EXTEND_OFFSETS);
    extendTokens = ints(Native.KVC_STEP_EXTEND_TOKENS);
    admitRequests = longs(Native.KVC_STEP_ADMIT_REQUESTS);
    admitOffsets = longs(Native.KVC_STEP_ADMIT_OFFSETS);
    admitTokens = ints(Native.KVC_STEP_ADMIT_TOKENS);
    admitNamespaces = longs(Native.KVC_STEP_ADMIT_NAMESPACES);
    admitSlots = longs(Native.KVC_STEP_ADMIT_SLOTS);
    rows = ints(Native.KVC_STEP_ROWS);
    status = ints(Native.KVC_STEP_STATUS);
    admitted = longs(Native.KVC_STEP_ADMITTED);
    cached = longs(Native.KVC_STEP_CACHED);
    numBlocks = longs(Native.KVC_STEP_NUM_BLOCKS);
    blockTables = ints(Native.KVC_STEP_BLOCK_TABLES);
    slots = longs(Native.KVC_STEP_SLOTS);
    copies = ints(Native.KVC_STEP_COPIES);
    changes = ints(Native.KVC_STEP_CHANGES);
    use(Native.KVC_STEP_COMMIT_OFFSETS, false);
    use(Native.KVC_STEP_ROWS, false);
  }

  private ByteBuffer bytes(int array) {
    ByteBuffer memory = Native.kvc_step_bytes(address, array);
    handle.ownedBy(memory);
    return memory.order(ByteOrder.nativeOrder());
  }

  private LongBuffer longs(int array) {
    return bytes(array).asLongBuffer();
  }

  private IntBuffer ints(int array) {
    return bytes(array).asIntBuffer();
  }

  /** Frees the memory, after a run in another thread has returned. The buffers then have no elements. Do not use views that you made of them. */
  @Override
  public void close() {
    for (Buffer array : new Buffer[] {frees, preempts, truncates, truncateLengths, requests, committed, commitOffsets, extendOffsets, admitRequests,
        admitOffsets, admitNamespaces, admitSlots, admitted, cached, numBlocks, slots, commitTokens, extendTokens, admitTokens, rows, status, blockTables, copies, changes}) {
      array.position(0).limit(0);
    }
    handle.close();
  }

  private <T extends Buffer> T open(T buffer) {
    handle.check();
    return buffer;
  }

  private <T extends Buffer> T on(T buffer, String name, int array) {
    handle.check();
    if ((off & 1 << array) != 0) {
      throw new IllegalStateException(name + " is off; switch it on with use(Step." + CONSTANTS.get(array) + ", true)");
    }
    return buffer;
  }

  private <T extends Buffer> T on(T buffer, String name, int first, int second) {
    on(buffer, name, first);
    return on(buffer, name, second);
  }

  /** Requests to free [maxFrees]. */
  public LongBuffer frees() {
    return open(frees);
  }

  /** Requests to preempt [maxFrees]. */
  public LongBuffer preempts() {
    return open(preempts);
  }

  /** Requests to truncate [maxFrees]. */
  public LongBuffer truncates() {
    return open(truncates);
  }

  /** Tokens that each of them keeps, an absolute count [maxFrees]. */
  public LongBuffer truncateLengths() {
    return open(truncateLengths);
  }

  /** Running requests, each once [maxRequests]. */
  public LongBuffer requests() {
    return open(requests);
  }

  /** Committed tokens of each running request, an absolute count [maxRequests]. */
  public LongBuffer committed() {
    return on(committed, "committed", COMMITTED);
  }

  /** Where the ids of each commit begin in {@link #commitTokens}, and their end [maxRequests + 1]. Off at first. */
  public LongBuffer commitOffsets() {
    return on(commitOffsets, "commitOffsets", COMMIT_OFFSETS);
  }

  /** Ids that became known since, appended before the commit [maxTokens]. Off at first. */
  public IntBuffer commitTokens() {
    return on(commitTokens, "commitTokens", COMMIT_OFFSETS);
  }

  /** Where the extension of each running request begins, and the end of the last one [maxRequests + 1]. */
  public LongBuffer extendOffsets() {
    return on(extendOffsets, "extendOffsets", EXTEND_OFFSETS);
  }

  /** Ids of the extended tokens [maxTokens]. */
  public IntBuffer extendTokens() {
    return on(extendTokens, "extendTokens", EXTEND_OFFSETS, EXTEND_TOKENS);
  }

  /** Waiting requests to admit; 0 = create a request from {@link #admitTokens} [maxAdmissions]. */
  public LongBuffer admitRequests() {
    return on(admitRequests, "admitRequests", ADMIT_REQUESTS);
  }

  /** Where the prompt of each admission begins in {@link #admitTokens}, and the end of the last one [maxAdmissions + 1]. */
  public LongBuffer admitOffsets() {
    return open(admitOffsets);
  }

  /** Prompts of the new requests, concatenated [maxPromptTokens]. */
  public IntBuffer admitTokens() {
    return open(admitTokens);
  }

  /** Namespaces of the new requests, for {@link #run} without options [maxAdmissions]. */
  public LongBuffer admitNamespaces() {
    return open(admitNamespaces);
  }

  /** Tokens after the hit that get slots, instead of the slots of the request; 0 = those [maxAdmissions]. */
  public LongBuffer admitSlots() {
    return open(admitSlots);
  }

  /**
   * Row of the block tables of each running request, then of each admission; -1 = none [maxRequests + maxAdmissions]. Off at first: item i has
   * row i.
   */
  public IntBuffer rows() {
    return on(rows, "rows", ROWS);
  }

  /** Result: code of a {@link Status} for each free, preemption, truncation, running request and admission, in this order. */
  public IntBuffer status() {
    return open(status);
  }

  /** Result: id of each admitted request; 0 = refused [maxAdmissions]. */
  public LongBuffer admitted() {
    return open(admitted);
  }

  /** Result: tokens of the hit of each admission [maxAdmissions]. */
  public LongBuffer cached() {
    return open(cached);
  }

  /** Result: valid entries of the row of each running request and admission, for each group. */
  public LongBuffer numBlocks() {
    return open(numBlocks);
  }

  /** Block tables [groups][maxRows][rowStride]; a step writes only entries that changed. See {@link #row}. */
  public IntBuffer blockTables() {
    return on(blockTables, "blockTables", BLOCK_TABLES);
  }

  /** Result: slots of the extended tokens [groups][maxTokens]; token t of request i is at extendOffsets[i] + t. */
  public LongBuffer slots() {
    return on(slots, "slots", SLOTS);
  }

  /** Result: (source, destination) pairs of blocks to copy before the step's kernels; see {@link #numCopies}. */
  public IntBuffer copies() {
    return open(copies);
  }

  /** Result: (group, row, column, block) of each entry written to {@link #blockTables}; see {@link #numChanges}. */
  public IntBuffer changes() {
    return on(changes, "changes", CHANGES);
  }

  /** Optional arrays, for {@link #use}. */
  public static final int COMMITTED = Native.KVC_STEP_COMMITTED,
      COMMIT_OFFSETS = Native.KVC_STEP_COMMIT_OFFSETS,
      EXTEND_OFFSETS = Native.KVC_STEP_EXTEND_OFFSETS,
      EXTEND_TOKENS = Native.KVC_STEP_EXTEND_TOKENS,
      ADMIT_REQUESTS = Native.KVC_STEP_ADMIT_REQUESTS,
      ROWS = Native.KVC_STEP_ROWS,
      BLOCK_TABLES = Native.KVC_STEP_BLOCK_TABLES,
      SLOTS = Native.KVC_STEP_SLOTS,
      CHANGES = Native.KVC_STEP_CHANGES;

  private static final Map<Integer, String> CONSTANTS = Map.of(COMMITTED, "COMMITTED", COMMIT_OFFSETS, "COMMIT_OFFSETS", EXTEND_OFFSETS, "EXTEND_OFFSETS",
      EXTEND_TOKENS, "EXTEND_TOKENS", ADMIT_REQUESTS, "ADMIT_REQUESTS", ROWS, "ROWS", BLOCK_TABLES, "BLOCK_TABLES", SLOTS, "SLOTS", CHANGES, "CHANGES");

  /**
   * Switches an optional array off (NULL in C) or on. With EXTEND_TOKENS off, extensions are slots only; their ids come later.
   * COMMIT_OFFSETS also switches {@link #commitTokens}, EXTEND_OFFSETS also {@link #extendTokens}.
   *
   * @throws IllegalArgumentException if the array is not optional
   */
  public void use(int array, boolean used) throws KvCacheException {
    if (!CONSTANTS.containsKey(array)) {
      throw new IllegalArgumentException("array " + array + " of a step cannot be switched; give a constant of Step, such as Step.ROWS");
    }
    handle.enter();
    try {
      Native.kvc_step_use(address, array, used ? 1 : 0);
      off = used ? off & ~(1 << array) : off | 1 << array;
    } finally {
      handle.exit();
    }
    show(committed, COMMITTED);
    show(commitOffsets, COMMIT_OFFSETS);
    show(commitTokens, COMMIT_OFFSETS);
    show(extendOffsets, EXTEND_OFFSETS);
    show(extendTokens, EXTEND_OFFSETS, EXTEND_TOKENS);
    show(admitRequests, ADMIT_REQUESTS);
    show(rows, ROWS);
    show(blockTables, BLOCK_TABLES);
    show(slots, SLOTS);
    show(changes, CHANGES);
  }

  /** Makes the buffer accessible if all these arrays are on. */
  private void show(Buffer buffer, int... switches) {
    boolean on = IntStream.of(switches).allMatch(array -> (off & 1 << array) == 0);
    buffer.limit(on ? buffer.capacity() : 0);
  }

  /** Sets the counts of items in this step. The others are 0. */
  public Step counts(int requests, int frees, int admissions) {
    return counts(requests, frees, 0, 0, admissions);
  }

  /** Sets the counts of items in this step. */
  public Step counts(int requests, int frees, int preempts, int truncates, int admissions) {
    Sizes.count("requests", requests);
    Sizes.count("frees", frees);
    Sizes.count("preempts", preempts);
    Sizes.count("truncates", truncates);
    Sizes.count("admissions", admissions);
    handle.enter();
    try {
      step.putLong(NativeConstants.STEP_AT_num_requests, requests);
      step.putLong(NativeConstants.STEP_AT_num_frees, frees);
      step.putLong(NativeConstants.STEP_AT_num_preempts, preempts);
      step.putLong(NativeConstants.STEP_AT_num_truncates, truncates);
      step.putLong(NativeConstants.STEP_AT_num_admissions, admissions);
    } finally {
      handle.exit();
    }
    return this;
  }

  /** Flags for {@link #flags}. */
  public static final int WHOLE_ROWS = Native.KVC_STEP_WHOLE_ROWS,
      ADMIT_PAST_REFUSAL = Native.KVC_STEP_ADMIT_PAST_REFUSAL, ADMIT_ALL_OR_NONE = Native.KVC_STEP_ADMIT_ALL_OR_NONE;

  /**
   * Sets flags, combined by or: WHOLE_ROWS writes whole rows, ADMIT_PAST_REFUSAL admits past an admission that has no space, ADMIT_ALL_OR_NONE
   * admits all admissions of the step or none.
   */
  public Step flags(int flags) {
    return set(NativeConstants.STEP_AT_flags, flags);
  }

  /** Sets what is written where a table has no block: -1 at first. */
  public Step fillId(int id) {
    return set(NativeConstants.STEP_AT_fill_id, id);
  }

  /** Sets the time of a monotonic clock, as {@link Manager#setTime} takes it, for the next runs; 0 = unchanged. */
  public Step nowNs(long time) {
    Sizes.count("nowNs", time);
    handle.enter();
    try {
      step.putLong(NativeConstants.STEP_AT_now_ns, time);
    } finally {
      handle.exit();
    }
    return this;
  }

  private Step set(int offset, int value) {
    handle.enter();
    try {
      step.putInt(offset, value);
    } finally {
      handle.exit();
    }
    return this;
  }

  /**
   * Executes the step: retire, commit, frees, preempts, truncates, extend, admit. Throws only if the step fails as a whole; then nothing has
   * changed. Each item has its own entry of {@link #status}, a {@link Status}: look at it after each run.
   *
   * @param retiredStep newest step whose kernels have finished; 0 = nothing new
   * @param admitOptions options of each new request; null = defaults. None = defaults for all, with the namespaces of {@link #admitNamespaces};
   *     otherwise the namespaces of the options count. Waiting requests keep the options that they were created with
   * @return the number of this step
   */
  public long run(long retiredStep, RequestOptions... admitOptions) throws KvCacheException {
    Sizes.count("retiredStep", retiredStep);
    handle.enter();
    try (AdmitOptions options = AdmitOptions.of(admitOptions, step.getLong(NativeConstants.STEP_AT_num_admissions))) {
      step.putLong(NativeConstants.STEP_AT_retired_step, retiredStep);
      manager.call(m -> Native.kvc_manager_step(m, address, options.namespaces(), options.configs(), options.keys(), options.keyOffsets()));
      return step.getLong(NativeConstants.STEP_AT_step_id);
    } finally {
      handle.exit();
    }
  }

  private int result(int offset) {
    handle.enter();
    try {
      return (int) step.getLong(offset);
    } finally {
      handle.exit();
    }
  }

  /** Number of copies to execute before the step's kernels: (source, destination) pairs in {@link #copies}. */
  public int numCopies() {
    return result(NativeConstants.STEP_AT_num_copies);
  }

  /** Number of entries of {@link #changes}: (group, row, column, block) each. */
  public int numChanges() {
    return result(NativeConstants.STEP_AT_num_changes);
  }

  /** Blocks missing for the first refused admission. */
  public long shortageBlocks() {
    return result(NativeConstants.STEP_AT_shortage_blocks);
  }

  /** Number of admissions that had no space. */
  public int numRefused() {
    return result(NativeConstants.STEP_AT_num_refused);
  }

  /** Returns a row of the block tables of a group. */
  public IntBuffer row(int group, int row) {
    IntBuffer tables = blockTables();
    int rows = result(NativeConstants.STEP_AT_num_rows), stride = result(NativeConstants.STEP_AT_row_stride);
    int groups = stride == 0 || rows == 0 ? 0 : tables.capacity() / (rows * stride);
    if (row < 0 || row >= rows || group < 0 || group >= groups) {
      throw new IndexOutOfBoundsException("no row " + row + " of group " + group + "; the step has " + groups + " groups of " + rows + " rows");
    }
    return tables.slice((group * rows + row) * stride, stride);
  }

  private long count(int offset) {
    return step.getLong(offset);
  }

  @Override
  public String toString() {
    try {
      handle.enter();
    } catch (IllegalStateException closed) {
      return "Step[closed]";
    }
    try {
      return "Step[step " + count(NativeConstants.STEP_AT_step_id) + ": " + count(NativeConstants.STEP_AT_num_requests) + " requests, "
          + count(NativeConstants.STEP_AT_num_frees) + " frees, " + count(NativeConstants.STEP_AT_num_preempts) + " preempts, "
          + count(NativeConstants.STEP_AT_num_truncates) + " truncates, " + count(NativeConstants.STEP_AT_num_admissions) + " admissions]";
    } finally {
      handle.exit();
    }
  }
}
