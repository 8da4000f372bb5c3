// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.IntBuffer;
import java.nio.LongBuffer;
import java.util.Objects;
import java.util.Set;
import java.util.stream.IntStream;

/**
 * One engine step for a whole batch: kvc_step. Its buffers are memory of the library, which stays from step to step. Fill them in place, set the
 * counts, call {@link #run}, and read the results. After close they have no elements. One thread at a time may use a step.
 *
 * <p>{@link #run} refuses entries that are not set. Until you set an entry, commitTokens, extendTokens, admitTokens, truncateLengths and admitOffsets (from
 * 1 on) hold -1, and rows Integer.MIN_VALUE. {@link #run} consumes the ids, lengths and admitOffsets that it reads: they are unset afterwards, so
 * keep your own copy of what you need later. All other inputs keep their values from step to step.
 *
 * <p>{@link #use} switches optional arrays off and on. At first {@link #commitOffsets} and {@link #commitTokens} (commits bring no ids) and
 * {@link #rows} (item i has row i) are off. A buffer that is off has the limit 0, so that reading or writing it throws. Do not set limits yourself.
 */
public final class Step implements AutoCloseable {
  /** Sizes of the arrays of a step: kvc_step_limits. */
  public record Limits(long maxRequests, long maxTokens, long maxRows, long rowStride, long maxFrees, long maxAdmissions, long maxPromptTokens) {}

  private final Manager manager;
  private final long address;
  private final Handle handle;
  private final ByteBuffer step;
  private int off; // one bit for each array that is switched off

  public final LongBuffer frees, preempts, truncates, truncateLengths, requests, committed, commitOffsets, extendOffsets, admitRequests,
      admitOffsets, admitNamespaces, admitted, cached, numBlocks, slots;
  public final IntBuffer commitTokens, extendTokens, admitTokens, rows, status, blockTables, copies, changes;

  /** Creates a step with all its arrays. */
  public Step(Manager manager, Limits limits) throws KvCacheException {
    this.manager = manager;
    kvc_step_limits sizes = new kvc_step_limits();
    long m = manager.handle.enter(); // until the step is destroyed
    try {
      sizes.setMax_requests(limits.maxRequests);
      sizes.setMax_tokens(limits.maxTokens);
      sizes.setMax_rows(limits.maxRows);
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
      sizes.delete();
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
        admitOffsets, admitNamespaces, admitted, cached, numBlocks, slots, commitTokens, extendTokens, admitTokens, rows, status, blockTables, copies, changes}) {
      array.position(0).limit(0);
    }
    handle.close();
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

  private static final Set<Integer> OPTIONAL =
      Set.of(COMMITTED, COMMIT_OFFSETS, EXTEND_OFFSETS, EXTEND_TOKENS, ADMIT_REQUESTS, ROWS, BLOCK_TABLES, SLOTS, CHANGES);

  /**
   * Switches an optional array off (NULL in C) or on. With EXTEND_TOKENS off, extensions are slots only; their ids come later.
   * COMMIT_OFFSETS also switches {@link #commitTokens}, EXTEND_OFFSETS also {@link #extendTokens}.
   *
   * @throws IllegalArgumentException if the array is not optional
   */
  public void use(int array, boolean used) throws KvCacheException {
    if (!OPTIONAL.contains(array)) {
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

  /** Sets the counts of items in this step. */
  public Step counts(int requests, int frees, int admissions) {
    return counts(requests, frees, 0, 0, admissions);
  }

  /** Sets the counts of items in this step. */
  public Step counts(int requests, int frees, int preempts, int truncates, int admissions) {
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

  /**
   * Executes the step: retire, commit, frees, preempts, truncates, extend, admit. Throws only if the step fails as a whole; then nothing has
   * changed. Each item has its own entry of {@link #status}: look at it after each run.
   *
   * @param retiredStep newest step whose kernels have finished; 0 = nothing new
   * @param admitOptions options of each new request; null = defaults. None = defaults for all, with the namespaces of {@link #admitNamespaces};
   *     otherwise the namespaces of the options count. Waiting requests keep the options that they were created with
   * @return the number of this step
   */
  public long run(long retiredStep, RequestOptions... admitOptions) throws KvCacheException {
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

  /** Number of admissions that had no space. */
  public int numRefused() {
    return result(NativeConstants.STEP_AT_num_refused);
  }

  /** Returns a row of the block tables of a group. */
  public IntBuffer row(int group, int row) {
    int numRows = result(NativeConstants.STEP_AT_num_rows);
    int stride = result(NativeConstants.STEP_AT_row_stride);
    Objects.checkIndex(row, numRows);
    Objects.checkIndex(group, stride == 0 ? Integer.MAX_VALUE : blockTables.capacity() / (numRows * stride));
    return blockTables.slice((group * numRows + row) * stride, stride);
  }
}
