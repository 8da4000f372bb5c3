// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.nio.IntBuffer;
import java.nio.LongBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;

/**
 * The block manager: which block holds which tokens, what requests share, what is evicted. Meaning and units are those of kvcache.h.
 *
 * <p>Any thread may call it; one {@link Request}, and one {@link Step}, is driven by one thread at a time. A failed call changes nothing.
 * Direct buffers are used in place, from position to limit, for the time of the call. Closing frees everything as soon as the last call in
 * another thread and the last step are gone.
 */
public final class Manager implements AutoCloseable {
  static final Cleaner CLEANER = Cleaner.create();
  final Handle handle;

  /** Makes a manager. */
  public Manager(Config config) throws KvCacheException {
    handle = new Handle("manager", config.create(), Native::kvc_manager_destroy);
    handle.ownedBy(this);
  }

  /** Of so many blocks of 16 tokens. */
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

  void call(Call call) throws KvCacheException {
    long address = handle.enter();
    try {
      call.run(address);
    } finally {
      handle.exit();
      Reference.reachabilityFence(this);
    }
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

  /** Creates and admits a request: its longest cached prefix is found, blocks are taken for the rest, all or nothing. */
  public Request allocate(IntBuffer tokens, RequestOptions options) throws KvCacheException {
    long[] id = new long[1], cached = new long[1];
    call(m -> Native.kvc_manager_allocate_request(m, tokens, RequestOptions.keys(options), RequestOptions.config(options), id, cached));
    Reference.reachabilityFence(options);
    return new Request(this, id[0], cached[0]);
  }

  /** The same with tokens that are copied. */
  public Request allocate(int... tokens) throws KvCacheException {
    return allocate(Buffers.copy(tokens), null);
  }

  /** Creates a waiting request: tokens are copied and hashed, no block is taken. */
  public Request create(IntBuffer tokens, RequestOptions options) throws KvCacheException {
    long id = ask((m, out) -> Native.kvc_manager_create_request(m, tokens, RequestOptions.keys(options), RequestOptions.config(options), out));
    Reference.reachabilityFence(options);
    return new Request(this, id, 0);
  }

  /** The request of an id, such as one of {@link Step#admitted}. */
  public Request request(long id) {
    return new Request(this, id, 0);
  }

  /** Writes whole block tables into rows of tables.remaining() / requests.remaining() entries; fillId where there is no block. */
  public void exportTables(LongBuffer requests, int group, int fillId, IntBuffer tables) throws KvCacheException {
    Sizes.tables(requests, tables);
    call(m -> Native.kvc_manager_export_tables(m, requests, group, fillId, tables));
  }

  /** Copies that calls have asked for, as (source, destination) pairs, to be executed in order before anything is written. */
  public List<int[]> takeCopies() throws KvCacheException {
    return grown(8, Native::kvc_manager_take_copies, Manager::pair);
  }

  /** Blocks to clear, after the copies and before anything is written. */
  public List<Integer> takeZeroBlocks() throws KvCacheException {
    return grown(4, (m, room, out) -> Native.kvc_manager_take_zero_blocks(m, room.asIntBuffer(), out), ByteBuffer::getInt);
  }

  /** Moves contents from the highest blocks of a pool to its lowest free ones: pairs to carry out before any block is read or written. */
  public List<int[]> compact(int pool, int maxMoves) throws KvCacheException {
    ByteBuffer room = Buffers.bytes(Math.multiplyExact(8, maxMoves));
    return read(room, ask((m, out) -> Native.kvc_manager_compact(m, pool, room, out)), Manager::pair);
  }

  private interface Taking {
    void take(long manager, ByteBuffer room, long[] count) throws KvCacheException;
  }

  private static int[] pair(ByteBuffer from) {
    return new int[] {from.getInt(), from.getInt()};
  }

  private static <T> List<T> read(ByteBuffer room, long count, Function<ByteBuffer, T> element) {
    List<T> all = new ArrayList<>();
    for (long i = 0; i < count; ++i) {
      all.add(element.apply(room));
    }
    return all;
  }

  /** Calls with more and more room until it is enough. */
  private <T> List<T> grown(int bytes, Taking taking, Function<ByteBuffer, T> element) throws KvCacheException {
    for (int size = 64;; size *= 4) {
      ByteBuffer room = Buffers.bytes(bytes * size);
      try {
        return read(room, ask((m, out) -> taking.take(m, room, out)), element);
      } catch (KvCacheException error) {
        if (error.status() != Native.KVC_ERROR_BUFFER_TOO_SMALL) {
          throw error;
        }
      }
    }
  }

  // ---- prefixes

  /** Opens a namespace: requests of different ones never share. null = absent; an empty part is present, which is different. */
  public long openNamespace(byte[] model, byte[] adapter, byte[] tenant) throws KvCacheException {
    return ask((m, out) -> Native.kvc_manager_open_namespace(m, Buffers.copy(model), Buffers.copy(adapter), Buffers.copy(tenant), out));
  }

  /** Undoes one open. */
  public void closeNamespace(long namespace) throws KvCacheException {
    call(m -> Native.kvc_manager_close_namespace(m, namespace));
  }

  /** Forgets everything cached in a namespace (0 = all) in constant time. */
  public void reset(long namespace) throws KvCacheException {
    call(m -> Native.kvc_manager_reset(m, namespace));
  }

  /** Tokens that would hit now. */
  public long probe(long namespace, IntBuffer tokens, RequestOptions.ExtraKey... keys) throws KvCacheException {
    kvc_probe_info info = new kvc_probe_info();
    try {
      call(m -> Native.kvc_manager_probe(m, namespace, tokens, RequestOptions.ExtraKey.pack(keys), info));
      return info.getNum_cached();
    } finally {
      info.delete();
    }
  }

  /** Keeps the cached part of a prefix from eviction; returns the pin for {@link #unpin}. */
  public long pin(long namespace, IntBuffer tokens, RequestOptions.ExtraKey... keys) throws KvCacheException {
    return ask((m, out) -> Native.kvc_manager_pin_prefix(m, namespace, tokens, RequestOptions.ExtraKey.pack(keys), out, new long[1]));
  }

  /** Ends a pin. */
  public void unpin(long pin) throws KvCacheException {
    call(m -> Native.kvc_manager_unpin_prefix(m, pin));
  }

  /** Drops every cached block of these tokens that nobody holds; returns their number. */
  public long drop(long namespace, IntBuffer tokens, RequestOptions.ExtraKey... keys) throws KvCacheException {
    return ask((m, out) -> Native.kvc_manager_drop_prefix(m, namespace, tokens, RequestOptions.ExtraKey.pack(keys), out));
  }

  /** Evicts up to maxBlocks cached blocks; returns their number. */
  public long evict(long maxBlocks) throws KvCacheException {
    return ask((m, out) -> Native.kvc_manager_evict_blocks(m, maxBlocks, out));
  }

  // ---- raw blocks, for engines that keep their own tables

  /** Fills the buffer with blocks that get one raw hold each, all or nothing. */
  public void acquireBlocks(int group, IntBuffer blocks) throws KvCacheException {
    call(m -> Native.kvc_manager_acquire_blocks(m, group, blocks));
  }

  /** Publishes raw-held blocks as the KV of the tokens that they have room for, which must be written. */
  public void publishBlocks(long namespace, int group, IntBuffer tokens, IntBuffer blocks) throws KvCacheException {
    call(m -> Native.kvc_manager_publish_blocks(m, namespace, group, tokens, null, blocks));
  }

  /** Takes a raw hold on the cached blocks of a prefix; returns their number. */
  public long acquirePrefix(long namespace, int group, IntBuffer tokens, IntBuffer blocks) throws KvCacheException {
    return ask((m, out) -> Native.kvc_manager_acquire_prefix(m, namespace, group, tokens, null, blocks, out));
  }

  /** Gives back one raw hold per entry, all or nothing. */
  public void releaseBlocks(IntBuffer blocks) throws KvCacheException {
    call(m -> Native.kvc_manager_release_blocks(m, blocks));
  }

  /** Makes blocks unfindable, whoever holds them, because their bytes turned out to be wrong; returns how many were findable. */
  public long unpublishBlocks(IntBuffer blocks) throws KvCacheException {
    return ask((m, out) -> Native.kvc_manager_unpublish_blocks(m, blocks, out));
  }

  // ---- what it is and how it does

  /** Never waits for the manager's lock. */
  public Stats stats() throws KvCacheException {
    kvc_stats stats = new kvc_stats();
    try {
      call(m -> Native.kvc_manager_stats(m, stats));
      return Stats.read(stats);
    } finally {
      stats.delete();
    }
  }

  /** Tokens per block. */
  public int blockSize() throws KvCacheException {
    kvc_properties properties = new kvc_properties();
    try {
      call(m -> Native.kvc_manager_properties(m, properties));
      return properties.getBlock_size();
    } finally {
      properties.delete();
    }
  }

  /** A hash of the state: equal call sequences give equal digests anywhere. */
  public long digest() throws KvCacheException {
    return ask(Native::kvc_manager_digest);
  }

  /** Checks every invariant. */
  public void check() throws KvCacheException {
    call(Native::kvc_manager_check);
  }

  /** The kernels of all steps up to this one have finished. */
  public void retireStep(long stepId) throws KvCacheException {
    call(m -> Native.kvc_manager_retire_step(m, stepId));
  }

  /** Reads up to 256 events from a cursor on (start with 0), without removing them. */
  public Event.Batch events(long cursor) throws KvCacheException {
    ByteBuffer room = Buffers.bytes(256 * NativeConstants.EVENT_BYTES);
    IntBuffer tokens = Buffers.ints(256 * 1024); // of the largest blocks
    long[] next = new long[1];
    long count = ask((m, out) -> Native.kvc_manager_poll_events(m, cursor, room, tokens, next, out));
    List<Event> events = new ArrayList<>();
    for (int i = 0; i < count; ++i) {
      events.add(Event.read(room, tokens));
    }
    return new Event.Batch(events, next[0]);
  }

  /** Counts of a pool; the states sum to numBlocks: kvc_pool_info. */
  public record PoolInfo(long firstBlock, long numBlocks, long free, long cached, long live, long reserved, long filling, long fenced, long pinned) {}

  /** Counts of a pool. */
  public PoolInfo poolInfo(int pool) throws KvCacheException {
    kvc_pool_info i = new kvc_pool_info();
    try {
      call(m -> Native.kvc_manager_pool_info(m, pool, i));
      return new PoolInfo(i.getFirst_block(), i.getNum_blocks(), i.getFree(), i.getCached(), i.getLive(), i.getReserved(), i.getFilling(),
          i.getFenced(), i.getPinned());
    } finally {
      i.delete();
    }
  }

  /** State of one block: kvc_block_info. state: 0 free, 1 cached, 2 pinned, 3 reserved, 4 live, 5 filling, 6 fenced; group -1 = never used. */
  public record BlockInfo(int state, int pool, int group, long tokenOffset, int requests, int rawHolds, int pins, boolean published, int numCopies) {}

  /** State of one block. */
  public BlockInfo blockInfo(int block) throws KvCacheException {
    kvc_block_info i = new kvc_block_info();
    try {
      call(m -> Native.kvc_manager_block_info(m, block, i));
      return new BlockInfo(i.getState(), i.getPool(), i.getGroup(), i.getToken_offset(), i.getRequests(), i.getRaw_holds(), i.getPins(),
          i.getPublished() != 0, i.getNum_copies());
    } finally {
      i.delete();
    }
  }

  /** Ids of all requests. */
  public List<Long> requests() throws KvCacheException {
    return grown(8, (m, room, out) -> Native.kvc_manager_list_requests(m, room.asLongBuffer(), out), ByteBuffer::getLong);
  }

  /** What a device is: kvc_device_info; memoryKinds are bits 1 &lt;&lt; KVC_MEMORY_*. */
  public record DeviceInfo(String name, String architecture, long memoryBytes, long freeBytes, int memoryKinds, int numProcessors) {}

  /** What a device is, such as "cpu"; the message of the failure says which there are. */
  public static DeviceInfo device(String name) throws KvCacheException {
    kvc_device_info i = new kvc_device_info();
    try {
      Native.kvc_device_properties(name, i);
      return new DeviceInfo(i.getName(), i.getArchitecture(), i.getMemory_bytes(), i.getFree_bytes(), i.getMemory_kinds(), i.getNum_processors());
    } finally {
      i.delete();
    }
  }

  /** Whether this build can do something: one of the KVC_FEATURE_* numbers of kvcache.h. */
  public static boolean supports(int feature) {
    try {
      Native.kvc_supports(feature);
      return true;
    } catch (KvCacheException error) {
      return false;
    }
  }

  /** Of the library: major * 10000 + minor * 100 + patch. */
  public static int version() {
    return Native.kvc_version();
  }

  /** Version, compiler and instruction sets of the library. */
  public static String buildInfo() {
    return Native.kvc_build_info();
  }

}
