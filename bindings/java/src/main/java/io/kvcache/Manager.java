// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.nio.IntBuffer;
import java.nio.LongBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;

/**
 * The block manager: it decides which block holds which tokens, what requests share, and what is evicted. kvcache.h is the manual; meaning and
 * units are the same here.
 *
 * <p>Any thread may call a manager. One thread at a time drives a {@link Request} or a {@link Step}. A failed call changes nothing. Direct buffers
 * are used in place during the call, from position to limit. Closing frees everything as soon as the last call in another thread and the last step
 * are gone.
 */
public final class Manager extends ManagerCalls implements AutoCloseable {
  static final Cleaner CLEANER = Cleaner.create();
  final Handle handle;

  /** Creates a manager. */
  public Manager(Config config) throws KvCacheException {
    this(null, config.create());
  }

  private Manager(Void unused, long address) {
    handle = new Handle("manager", address, Native::kvc_manager_destroy);
    handle.ownedBy(this);
  }

  /** Creates a manager with this many blocks of 16 tokens. */
  public Manager(long numBlocks) throws KvCacheException {
    this(new Config().numBlocks(numBlocks));
  }

  @Override
  public void close() {
    handle.close();
  }

  interface Call {
    void run(long manager) throws KvCacheException;
  }

  @Override
  void call(Call call) throws KvCacheException {
    handle.call(this, call);
  }

  interface Question {
    void ask(long manager, long[] answer) throws KvCacheException;
  }

  long ask(Question question) throws KvCacheException {
    long[] answer = new long[1];
    call(m -> question.ask(m, answer));
    return answer[0];
  }

  // ---- requests

  /** Creates and admits a request: finds its longest cached prefix and takes blocks for the rest, all or nothing. Options may be null. */
  public Request allocate(IntBuffer tokens, RequestOptions options) throws KvCacheException {
    long[] id = new long[1], cached = new long[1];
    call(m -> Native.kvc_manager_allocate_request(m, RequestOptions.namespace(options), tokens, RequestOptions.keys(options), RequestOptions.config(options), id, cached));
    Reference.reachabilityFence(options);
    return new Request(this, id[0], cached[0]);
  }

  /** The same, with tokens that are copied. */
  public Request allocate(int[] tokens, RequestOptions options) throws KvCacheException {
    return allocate(Buffers.copy(tokens), options);
  }

  /** The same, with all defaults. */
  public Request allocate(int... tokens) throws KvCacheException {
    return allocate(tokens, null);
  }

  /** Creates a waiting request: its tokens are copied and hashed, and it gets no block. Options may be null. */
  public Request create(IntBuffer tokens, RequestOptions options) throws KvCacheException {
    long id = ask((m, out) -> Native.kvc_manager_create_request(m, RequestOptions.namespace(options), tokens, RequestOptions.keys(options),
        RequestOptions.config(options), out));
    Reference.reachabilityFence(options);
    return new Request(this, id, 0);
  }

  /** The same, with tokens that are copied. */
  public Request create(int[] tokens, RequestOptions options) throws KvCacheException {
    return create(Buffers.copy(tokens), options);
  }

  /** Returns the request of an id, such as one of {@link Step#admitted}. */
  public Request request(long id) {
    return new Request(this, id, 0);
  }

  /**
   * Admits waiting requests, all or none, and returns the tokens of their hits. Each is planned as if those before it were admitted; if one is refused, all
   * wait as before. The exception is that of the first that is refused, and its text begins with its index.
   *
   * @param statuses null, or an entry for each, a {@link Status}: if one is refused, those that would fit are SKIPPED, and so are those behind one of the same
   *     quota that has no space, which are not tried. {@link Request#cached} is set by {@link Request#admit} alone
   */
  public long[] admitBatch(LongBuffer requests, IntBuffer statuses) throws KvCacheException {
    Sizes.there("requests", requests);
    int count = requests.remaining();
    if (statuses != null && statuses.remaining() != count) {
      throw Sizes.invalid("statuses has %d entries; %d requests need as many, or null", statuses.remaining(), count);
    }
    if (statuses != null) {
      Sizes.apart(new Buffer[] {Buffers.writable(statuses)}, Buffers.readable(requests));
    }
    ByteBuffer cached = Buffers.bytes(Math.multiplyExact(8, count));
    call(m -> Native.kvc_manager_admit_batch(m, requests, cached.asLongBuffer(), statuses == null ? Buffers.ints(0) : statuses));
    long[] out = new long[count];
    cached.asLongBuffer().get(out);
    return out;
  }

  /**
   * Counts the first blocks that the tables of requests have in common in a group, as cascade attention reads them once for all. A position without a block
   * ends it; a waiting request has none.
   */
  public long commonPrefix(LongBuffer requests, int group) throws KvCacheException {
    Sizes.count("group", group);
    return ask((m, out) -> Native.kvc_manager_common_prefix(m, requests, group, out));
  }

  /** Writes whole block tables into rows of tables.remaining() / requests.remaining() entries. An entry without a block is fillId. */
  public void exportTables(LongBuffer requests, int group, int fillId, IntBuffer tables) throws KvCacheException {
    Sizes.count("group", group);
    Sizes.tables(requests, tables);
    call(m -> Native.kvc_manager_export_tables(m, requests, group, fillId, tables));
  }

  /**
   * Copies and clears that the engine must execute: the copies first, in order, before anything else writes to these blocks.
   *
   * @param copies (source, destination) pairs of single calls; those of a step are in {@link Step#copies} and come before these
   * @param zeroBlocks blocks to clear, each once
   */
  public record Pending(List<int[]> copies, List<Integer> zeroBlocks) {}

  /** Takes the work of all calls since the last take. */
  public Pending takePending() throws KvCacheException {
    List<Integer> zeroBlocks = new ArrayList<>();
    List<int[]> copies = grown(8, (m, room, out) -> {
      IntBuffer zero = Buffers.ints(room.capacity() / 8);
      long[] numZero = new long[1];
      Native.kvc_manager_take_pending(m, room, zero, out, numZero);
      for (int i = 0; i < numZero[0]; ++i) {
        zeroBlocks.add(zero.get(i));
      }
    }, Manager::pair);
    return new Pending(copies, zeroBlocks);
  }

  /**
   * Moves contents from the highest blocks of a pool to its lowest free ones. Returns the moves, (source, destination) pairs: execute them before any
   * block is read or written. If there are maxMoves of them, another call may find more.
   */
  public List<int[]> compact(int pool, int maxMoves) throws KvCacheException {
    Sizes.count("pool", pool);
    ByteBuffer room = Buffers.bytes(Math.multiplyExact(8, Sizes.count("maxMoves", maxMoves)));
    return read(room.limit(8 * (int) ask((m, out) -> Native.kvc_manager_compact(m, pool, room, out))), Manager::pair);
  }

  /**
   * Changes the number of blocks of a pool, null block included, up to {@link Config#maxBlocks}. A pool that grows has more free blocks at once. One that
   * shrinks evicts cached blocks, if it must, in the order of the policy, and moves what is held or cached to the blocks that stay. Returns the moves,
   * (source, destination) pairs: execute them before any block is read or written. If the call fails, nothing changes.
   */
  public List<int[]> resize(int pool, long numBlocks) throws KvCacheException {
    Sizes.count("pool", pool);
    Sizes.count("numBlocks", numBlocks);
    return grown(8, (m, room, out) -> Native.kvc_manager_resize(m, pool, numBlocks, room, out), Manager::pair);
  }

  /**
   * Copy numTokens tokens of a group from offset on in block source of the old memory to newOffset on in block destination of the new one:
   * kvc_token_copy.
   */
  public record TokenCopy(int group, int source, int destination, int offset, int newOffset, int numTokens) {}

  /**
   * What {@link #rebuild} made.
   *
   * @param copies to execute before the manager admits a request, by group, destination and new offset
   * @param namespaces new ids by old ones
   */
  public record Rebuilt(Manager manager, List<TokenCopy> copies, Map<Long, Long> namespaces) {}

  /**
   * Creates a manager of another configuration that has what this one has cached: the way to change the block size, the number of blocks or the
   * policy. The groups are those of this manager, which stays as it is; close it when the copies are done. A smaller pool keeps what would be
   * evicted last. Not while requests are admitted, blocks held or steps in flight, and not with groups that have a window.
   */
  public Rebuilt rebuild(Config config) throws KvCacheException {
    Map<Long, Long> namespaces = new HashMap<>();
    long[] made = new long[1];
    List<TokenCopy> copies = grown(24, (m, room, out) -> {
      ByteBuffer pairs = Buffers.bytes(16 * (room.capacity() / 24));
      long[] numPairs = new long[1];
      made[0] = config.create((c, address) -> Native.kvc_manager_rebuild(m, c, room, pairs, address, out, numPairs));
      for (long i = 0; i < numPairs[0]; ++i) {
        namespaces.put(pairs.getLong(), pairs.getLong());
      }
    }, from -> new TokenCopy(from.getInt(), from.getInt(), from.getInt(), from.getInt(), from.getInt(), from.getInt()));
    return new Rebuilt(new Manager(null, made[0]), copies, namespaces);
  }

  private interface Taking {
    void take(long manager, ByteBuffer room, long[] count) throws KvCacheException;
  }

  private static int[] pair(ByteBuffer from) {
    return new int[] {from.getInt(), from.getInt()};
  }

  private static <T> List<T> read(ByteBuffer room, Function<ByteBuffer, T> element) {
    List<T> all = new ArrayList<>();
    while (room.hasRemaining()) {
      all.add(element.apply(room));
    }
    return all;
  }

  private <T> List<T> grown(int bytes, Taking taking, Function<ByteBuffer, T> element) throws KvCacheException {
    return read(Buffers.grown(bytes, 64, (room, out) -> call(m -> taking.take(m, room, out))), element);
  }

  /**
   * Returns a digest, 32 bytes, of what the manager has cached and in which order it would be evicted. It is equal in all processes, whatever the ids of
   * blocks.
   */
  public byte[] contentDigest() throws KvCacheException {
    ByteBuffer room = Buffers.bytes(32);
    call(m -> Native.kvc_manager_content_digest(m, room));
    return Buffers.array(room);
  }

  // ---- prefixes

  /** Opens the namespace with this identity. A part that is null is absent; an empty one is present, which is different. */
  public long openNamespace(byte[] model, byte[] adapter, byte[] tenant) throws KvCacheException {
    return ask((m, out) -> Native.kvc_manager_open_namespace(m, Buffers.copy(model), Buffers.copy(adapter), Buffers.copy(tenant), out));
  }

  /** Returns the ids of the open namespaces besides the default one. */
  public List<Long> namespaces() throws KvCacheException {
    return grown(8, (m, room, out) -> Native.kvc_manager_list_namespaces(m, room.asLongBuffer(), out), ByteBuffer::getLong);
  }

  /**
   * Switches prefix caching off and on, for example to measure without it; a manager begins with it on. Off: admissions, probe and acquirePrefix find
   * nothing, and nothing is published. Cached blocks stay until they are evicted, and can hit when it is on again; pins, registered prompts, hints and
   * checkpoints are as ever. Admitted requests keep their blocks. A request that was admitted at any moment while it was off publishes nothing until
   * it is preempted and admitted again. rebuild and checkpoints do not carry the switch: set it again.
   *
   * @throws KvCacheException UNSUPPORTED (on, for a manager without a prefix cache)
   */
  public void setPrefixCaching(boolean on) throws KvCacheException {
    call(c -> Native.kvc_manager_set_prefix_caching(c, on ? 1 : 0));
  }

  /** All namespaces together, in curves and in events of the kind ALL_CLEARED; no namespace has this id. */
  public static final long ALL_NAMESPACES = -1;

  // ---- miss-ratio curves

  /**
   * How a curve is measured: kvc_curve_config.
   *
   * @param sampleRate share of the blocks to follow, up to 1, which is exact; 0 = what maxSamples allows
   * @param maxSamples 0 = 16,000; without a limit if sampleRate is set
   * @param maxBlocks largest size to ask for; 0 = 8 times the blocks of the manager
   * @param halfLife after so many block queries earlier ones count half; 0 = all count alike
   */
  public record CurveConfig(double sampleRate, long maxSamples, long maxBlocks, long halfLife) {}

  /** Starts to measure the hit rate that x blocks under LRU would have, for all x at once, of a namespace alone or of ALL_NAMESPACES together.
   * Config null: the defaults. */
  public void openCurve(long namespace, CurveConfig config) throws KvCacheException {
    try (kvc_curve_config c = new kvc_curve_config()) {
      if (config != null) {
        c.setSample_rate(config.sampleRate());
        c.setMax_samples(config.maxSamples());
        c.setMax_blocks(config.maxBlocks());
        c.setHalf_life(config.halfLife());
      }
      call(m -> Native.kvc_manager_open_curve(m, namespace, c));
    }
  }

  /** Returns the share of the block queries that caches of these sizes would answer. The sizes ascend. */
  public double[] hitRates(long namespace, long... numBlocks) throws KvCacheException {
    ByteBuffer sizes = Buffers.bytes(Math.multiplyExact(8, numBlocks.length)), rates = Buffers.bytes(Math.multiplyExact(8, numBlocks.length));
    sizes.asLongBuffer().put(numBlocks);
    call(m -> Native.kvc_manager_read_curve(m, namespace, sizes.asLongBuffer(), rates));
    double[] out = new double[numBlocks.length];
    rates.asDoubleBuffer().get(out);
    return out;
  }

  // ---- what is cached

  /** Returns the tokens of a prompt that would hit now. Changes nothing. */
  public long probe(long namespace, IntBuffer tokens, RequestOptions.ExtraKey... keys) throws KvCacheException {
    return probeInfo(namespace, tokens, keys).numCached();
  }

  /** Asks what the admission of a prompt without options would find. Changes nothing. */
  public ProbeInfo probeInfo(long namespace, IntBuffer tokens, RequestOptions.ExtraKey... keys) throws KvCacheException {
    try (kvc_probe_info info = new kvc_probe_info()) {
      call(m -> Native.kvc_manager_probe(m, namespace, tokens, RequestOptions.ExtraKey.pack(keys), info));
      return ProbeInfo.read(info);
    }
  }

  /**
   * Returns the digests of the prefix positions of a prompt, 32 bytes for each full block, as {@link Event#digest}: for {@link Tier#pageKeys}. Changes
   * nothing.
   */
  public ByteBuffer positionDigests(long namespace, IntBuffer tokens, RequestOptions.ExtraKey... keys) throws KvCacheException {
    return Buffers.grown(32, 64,
        (room, out) -> call(m -> Native.kvc_manager_position_digests(m, namespace, tokens, RequestOptions.ExtraKey.pack(keys), room, out)));
  }

  /** Protects the cached part of a prefix from eviction. Returns the pin, for {@link #unpin}. */
  public long pin(long namespace, IntBuffer tokens, RequestOptions.ExtraKey... keys) throws KvCacheException {
    return ask((m, out) -> Native.kvc_manager_pin_prefix(m, namespace, tokens, RequestOptions.ExtraKey.pack(keys), out, new long[1]));
  }

  /** Returns the ids of all pins. */
  public List<Long> pins() throws KvCacheException {
    return grown(8, (m, room, out) -> Native.kvc_manager_list_pins(m, room.asLongBuffer(), out), ByteBuffer::getLong);
  }

  /** Drops the cached blocks of these tokens that nobody holds. Returns their number. */
  public long drop(long namespace, IntBuffer tokens, RequestOptions.ExtraKey... keys) throws KvCacheException {
    return ask((m, out) -> Native.kvc_manager_drop_prefix(m, namespace, tokens, RequestOptions.ExtraKey.pack(keys), out));
  }

  /** A priority below 0, for {@link #setPrefixPriority}: it is evicted before all else. */
  public static final int PRIORITY_DEMOTED = -1;

  /**
   * Hints the cached part of a prompt from firstToken on: priority 0 (evicted first) to 100, 35 without a hint. untilNs is when the hint ends, in the
   * time of {@link #setTime}; 0 = never. PRIORITY_DEMOTED, with untilNs 0, demotes the end of the prompt down to firstToken; a position that others use
   * ends it. Returns the tokens that took the hint. Needs {@link Config#hints}.
   */
  public long setPrefixPriority(long namespace, IntBuffer tokens, long firstToken, int priority, long untilNs, RequestOptions.ExtraKey... keys)
      throws KvCacheException {
    Sizes.count("firstToken", firstToken);
    if (priority != PRIORITY_DEMOTED) {
      Sizes.count("priority", priority);
    }
    Sizes.count("untilNs", untilNs);
    return ask((m, out) -> Native.kvc_manager_set_prefix_priority(m, namespace, tokens, RequestOptions.ExtraKey.pack(keys), firstToken, priority,
        untilNs, out));
  }

  /**
   * Registers a prompt, such as a system prompt, under a name of 1 to 255 bytes. What is cached of it, and what its requests compute of it, is pinned
   * until it is unregistered. Returns the tokens pinned now.
   */
  public long registerPrompt(String name, long namespace, IntBuffer tokens, RequestOptions.ExtraKey... keys) throws KvCacheException {
    return ask((m, out) -> Native.kvc_manager_register_prompt(m, name, namespace, tokens, RequestOptions.ExtraKey.pack(keys), out));
  }

  /**
   * Creates and admits a request with a registered prompt, followed by tokens. Namespace and keys are those of the prompt; other options may be null.
   */
  public Request allocateFromPrompt(String name, IntBuffer tokens, RequestOptions options) throws KvCacheException {
    long[] id = new long[1], cached = new long[1];
    call(m -> Native.kvc_manager_allocate_from_prompt(m, name, tokens, RequestOptions.config(options), id, cached));
    Reference.reachabilityFence(options);
    return new Request(this, id[0], cached[0]);
  }

  /** Ends a registration and its pin. */
  public void unregisterPrompt(String name) throws KvCacheException {
    call(m -> Native.kvc_manager_unregister_prompt(m, name));
  }

  /** Returns the names of the registered prompts. */
  public List<String> prompts() throws KvCacheException {
    byte[] names = Buffers.array(Buffers.grown(1, 256, (room, out) -> call(m -> Native.kvc_manager_list_prompts(m, room, out))));
    return names.length == 0 ? List.of() : List.of(new String(names, StandardCharsets.UTF_8).split("\0"));
  }

  /** Evicts up to maxBlocks cached blocks in the order of the policy. Returns their number. */
  public long evict(long maxBlocks) throws KvCacheException {
    return evict(-1, maxBlocks);
  }

  /** The same in one pool; -1 = all, pool by pool. */
  public long evict(int pool, long maxBlocks) throws KvCacheException {
    Sizes.count("maxBlocks", maxBlocks);
    return ask((m, out) -> Native.kvc_manager_evict_blocks(m, pool, maxBlocks, out));
  }

  // ---- external holds, for engines with their own block tables

  /** Fills the buffer with blocks of a group's pool, all or nothing. Each gets one external hold. */
  public void acquireBlocks(int group, IntBuffer blocks) throws KvCacheException {
    Sizes.count("group", group);
    call(m -> Native.kvc_manager_acquire_blocks(m, group, blocks));
  }

  /** Publishes externally held blocks as the KV of the first tokens, which must be written. */
  public void publishBlocks(long namespace, int group, IntBuffer tokens, IntBuffer blocks) throws KvCacheException {
    Sizes.count("group", group);
    call(m -> Native.kvc_manager_publish_blocks(m, namespace, tokens, null, group, blocks));
  }

  /** Takes an external hold on each cached block of a prefix. Returns the number of positions; an entry is -1 where a window needs no block. */
  public long acquirePrefix(long namespace, int group, IntBuffer tokens, IntBuffer blocks) throws KvCacheException {
    Sizes.count("group", group);
    return ask((m, out) -> Native.kvc_manager_acquire_prefix(m, namespace, tokens, null, group, blocks, out));
  }

  /** Releases one external hold per entry, all or nothing. */
  public void releaseBlocks(IntBuffer blocks) throws KvCacheException {
    call(m -> Native.kvc_manager_release_blocks(m, blocks));
  }

  /** Makes blocks unfindable because their bytes are wrong, for example after a failed load. Returns how many were published. */
  public long unpublishBlocks(IntBuffer blocks) throws KvCacheException {
    return ask((m, out) -> Native.kvc_manager_unpublish_blocks(m, blocks, out));
  }

  // ---- state

  /** Returns counters and gauges as of the last finished call. Does not wait for the manager's lock. */
  public Stats stats() throws KvCacheException {
    try (kvc_stats stats = new kvc_stats()) {
      call(m -> Native.kvc_manager_read_stats(m, stats));
      return Stats.read(stats);
    }
  }

  /** Whether the tables of a group hold the tokens of encoders. */
  boolean isCross(int group) throws KvCacheException {
    try (kvc_properties properties = new kvc_properties()) {
      call(m -> Native.kvc_manager_properties(m, properties));
      return group >= properties.getNum_groups() - properties.getNum_cross_groups();
    }
  }

  int numGroups() throws KvCacheException {
    try (kvc_properties properties = new kvc_properties()) {
      call(m -> Native.kvc_manager_properties(m, properties));
      return properties.getNum_groups();
    }
  }

  /** Tokens per block. */
  public int blockSize() throws KvCacheException {
    try (kvc_properties properties = new kvc_properties()) {
      call(m -> Native.kvc_manager_properties(m, properties));
      return properties.getBlock_size();
    }
  }

  /**
   * Reads up to 256 events from a cursor on (0 at first), without removing them. If the next cursor is more than the cursor and the events read,
   * the events between are lost.
   */
  public Event.Batch events(long cursor) throws KvCacheException {
    Sizes.count("cursor", cursor);
    return eventBatch((m, room, tokens, next, out) -> Native.kvc_manager_poll_events(m, cursor, room, tokens, next, out));
  }

  /**
   * Lists what can be found, up to 256 entries from a cursor on (0 at first): a stored event for each prefix position and group, in no particular
   * order. The next cursor is 0 at the end. eventCursor[0] is written if the cursor is 0: list everything, then apply the events from there on.
   */
  public Event.Batch prefixes(long cursor, long[] eventCursor) throws KvCacheException {
    Sizes.count("cursor", cursor);
    long[] from = new long[1];
    Event.Batch batch =
        eventBatch((m, room, tokens, next, out) -> Native.kvc_manager_list_prefixes(m, cursor, room, tokens, next, from, out));
    if (cursor == 0) {
      eventCursor[0] = from[0];
    }
    return batch;
  }

  private interface Reading {
    void read(long manager, ByteBuffer room, IntBuffer tokens, long[] next, long[] count) throws KvCacheException;
  }

  private Event.Batch eventBatch(Reading reading) throws KvCacheException {
    ByteBuffer room = Buffers.bytes(256 * NativeConstants.EVENT_BYTES);
    IntBuffer tokens = Buffers.ints(256 * 1024); // of the largest blocks
    long[] next = new long[1];
    long count = ask((m, out) -> reading.read(m, room, tokens, next, out));
    List<Event> events = new ArrayList<>();
    for (int i = 0; i < count; ++i) {
      events.add(Event.read(room, tokens));
    }
    return new Event.Batch(events, next[0]);
  }

  // ---- the log of its calls

  /**
   * Returns what was logged since the last take, as one part of a log, and empties the log; no bytes if there is nothing new. Append the parts to
   * a file: {@link #replayLog} and {@code kvcache replay --log} make the calls again. A log has the tokens of all prompts. Needs
   * {@link Config#recordBytes}.
   */
  public byte[] takeLog() throws KvCacheException {
    return Buffers.array(Buffers.grown(1, 4096, (room, out) -> call(m -> Native.kvc_manager_take_log(m, room, out))));
  }

  /**
   * Makes the calls of a log again, on a manager of its own with another hash seed, and compares every status and result.
   *
   * @param log all parts, in order. A log that was cut or changed is INVALID_ARGUMENT.
   */
  public static LogReplay replayLog(byte[] log) throws KvCacheException {
    try (kvc_replay_info i = new kvc_replay_info()) {
      Native.kvc_log_replay(Buffers.copy(log), i);
      return LogReplay.read(i);
    }
  }

  /**
   * Says that the kernels of a step in flight, and of all later ones, did not write their blocks. Requests that hold such a block are preempted, in the
   * order of their admissions. Returns their ids.
   */
  public List<Long> failStep(long stepId) throws KvCacheException {
    Sizes.count("stepId", stepId);
    return grown(8, (m, room, out) -> Native.kvc_manager_fail_step(m, stepId, room.asLongBuffer(), out), ByteBuffer::getLong);
  }

  /** Returns the ids of all requests. */
  public List<Long> requests() throws KvCacheException {
    return grown(8, (m, room, out) -> Native.kvc_manager_list_requests(m, room.asLongBuffer(), out), ByteBuffer::getLong);
  }

  /** Returns the properties of a device, such as "cpu". The message of a failure lists the devices. */
  public static DeviceInfo device(String name) throws KvCacheException {
    try (kvc_device_info i = new kvc_device_info()) {
      Native.kvc_device_read_info(name, i);
      return DeviceInfo.read(i);
    }
  }

  /** Version of the library: major * 10000 + minor * 100 + patch. */
  public static int version() {
    return Native.kvc_version();
  }

  /** Version, compiler and instruction sets of the library. */
  public static String buildInfo() {
    return Native.kvc_build_info();
  }

  @Override
  public String toString() {
    try {
      Stats s = stats();
      return "Manager[" + s.blocksTotal() + " blocks of " + blockSize() + " tokens: " + s.blocksFree() + " free, " + s.blocksCached() + " cached; "
          + s.liveRequests() + " admitted and " + s.waitingRequests() + " waiting requests]";
    } catch (KvCacheException | IllegalStateException closed) {
      return "Manager[closed]";
    }
  }
}
