// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import java.nio.ByteBuffer;
import java.nio.IntBuffer;
import java.nio.LongBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/** Which worker has how much of a prompt cached: kvc_index. Any thread may use it; matches never wait for other calls. */
public final class Index extends IndexCalls implements AutoCloseable {
  /** Stands for all media of a worker. */
  public static final int ALL_MEDIA = -1;

  private final Handle handle;
  private final int maxWorkers;
  private final int numMedia;

  /**
   * Settings: kvc_index_config, with its defaults for 0.
   *
   * @param maxBlocks blocks at a time; a block counts once, however many workers have it
   * @param maxWorkers up to 1024
   * @param numMedia kinds of memory of a worker, up to 8
   * @param maxNamespaces with blocks, of all workers together
   * @param group the group whose events count
   * @param ttlNs {@link #expire} removes workers that are silent for longer
   * @param hideStale matches leave out workers of which events are missing
   */
  public record Options(long maxBlocks, int maxWorkers, int numMedia, int maxNamespaces, int group, long ttlNs, boolean hideStale) {
    /** All defaults. */
    public Options() {
      this(0, 0, 0, 0, 0, 0, false);
    }
  }

  /** Blocks of a prompt that a worker has, from the first one to the first gap: in any medium, then in each medium alone. */
  public record Match(long worker, int blocks, int[] media) {}

  /** A worker; the arrays have an entry for each medium. */
  public record Worker(String name, long lastHeardNs, long[] numBlocks, long[] nextSequence, boolean[] isStale) {}

  /** Creates an index. */
  public Index(Options options) throws KvCacheException {
    Sizes.count("maxBlocks", options.maxBlocks);
    Sizes.count("maxWorkers", options.maxWorkers);
    Sizes.count("numMedia", options.numMedia);
    Sizes.count("maxNamespaces", options.maxNamespaces);
    Sizes.count("group", options.group);
    long[] out = new long[1];
    try (kvc_index_config c = new kvc_index_config()) {
      c.setMax_blocks(options.maxBlocks);
      c.setMax_workers(options.maxWorkers);
      c.setNum_media(options.numMedia);
      c.setMax_namespaces(options.maxNamespaces);
      c.setGroup(options.group);
      c.setTtl_ns(options.ttlNs);
      c.setFlags(options.hideStale ? Native.KVC_INDEX_HIDE_STALE : 0);
      Native.kvc_index_create(c, out);
    }
    maxWorkers = options.maxWorkers == 0 ? 256 : options.maxWorkers;
    numMedia = options.numMedia == 0 ? 4 : options.numMedia;
    handle = new Handle("index", out[0], Native::kvc_index_destroy);
    handle.ownedBy(this);
  }

  @Override
  public void close() {
    handle.close();
  }

  /** Adds a worker, whose streams begin at sequence 0. The name has at most 63 bytes; null = none. */
  public void addWorker(long worker, String name, long nowNs) throws KvCacheException {
    call(i -> Native.kvc_index_add_worker(i, worker, name, nowNs));
  }

  /** Applies events of one medium of a worker, as {@link Manager#events} gives them. */
  public Applied apply(long worker, int medium, List<Event> events, long nowNs) throws KvCacheException {
    ByteBuffer packed = Buffers.bytes(Math.multiplyExact(events.size(), NativeConstants.EVENT_BYTES));
    for (Event event : events) {
      event.write(packed);
    }
    packed.flip();
    try (kvc_index_applied a = new kvc_index_applied()) {
      call(i -> Native.kvc_index_apply(i, worker, medium, packed, nowNs, a));
      return Applied.read(a);
    }
  }

  /** Returns the identity of a namespace, 32 bytes, as {@link Manager#openNamespace} has it, without a manager. A part that is null is absent. */
  public static byte[] namespaceRoot(byte[] model, byte[] adapter, byte[] tenant) throws KvCacheException {
    ByteBuffer root = Buffers.bytes(32);
    Native.kvc_index_root(Buffers.copy(model), Buffers.copy(adapter), Buffers.copy(tenant), root);
    return Buffers.array(root);
  }

  /**
   * Returns what {@link Manager#positionDigests} gives for a prompt without extra keys, without a manager.
   *
   * @param root of {@link #namespaceRoot}; null = the default namespace
   */
  public static ByteBuffer prefixDigests(byte[] root, IntBuffer tokens, int blockSize) throws KvCacheException {
    ByteBuffer room = Buffers.bytes(Math.multiplyExact(32, tokens.remaining() / Math.max(1, blockSize)));
    long[] count = new long[1];
    Native.kvc_index_digests(checked(root), tokens, blockSize, room, count);
    return room.limit(32 * (int) count[0]);
  }

  /** Returns how many blocks of a prompt each worker has, for the workers that have the first one, in no particular order. Of digests 32 bytes each. */
  public List<Match> match(ByteBuffer digests) throws KvCacheException {
    return match((i, workers, matched, count) -> Native.kvc_index_match(i, digests, workers, matched, count));
  }

  /** The same from the tokens of a prompt without extra keys. root: of {@link #namespaceRoot}; null = the default namespace. */
  public List<Match> matchTokens(byte[] root, IntBuffer tokens, int blockSize) throws KvCacheException {
    ByteBuffer own = checked(root);
    return match((i, workers, matched, count) -> Native.kvc_index_match_tokens(i, own, tokens, blockSize, workers, matched, count));
  }

  /** Returns the numbers of all workers. */
  public List<Long> workers() throws KvCacheException {
    LongBuffer room = Buffers.longs(maxWorkers);
    long[] count = new long[1];
    call(i -> Native.kvc_index_list_workers(i, room, count));
    List<Long> all = new ArrayList<>();
    for (int n = 0; n < count[0]; ++n) {
      all.add(room.get(n));
    }
    return all;
  }

  /** Describes a worker. */
  public Worker worker(long worker) throws KvCacheException {
    ByteBuffer name = Buffers.bytes(64);
    LongBuffer numbers = Buffers.longs(1 + 3 * Native.KVC_INDEX_MAX_MEDIA);
    call(i -> Native.kvc_index_worker_info(i, worker, name, numbers));
    byte[] text = new byte[64];
    name.get(text);
    int length = 0;
    while (length < text.length && text[length] != 0) {
      ++length;
    }
    long[][] columns = new long[3][numMedia];
    boolean[] stale = new boolean[numMedia];
    for (int column = 0; column < 3; ++column) {
      for (int medium = 0; medium < numMedia; ++medium) {
        columns[column][medium] = numbers.get(1 + column * Native.KVC_INDEX_MAX_MEDIA + medium);
        stale[medium] = columns[column][medium] != 0;
      }
    }
    return new Worker(new String(text, 0, length, StandardCharsets.UTF_8), numbers.get(0), columns[0], columns[1], stale);
  }

  /** Returns the workers, their streams and all blocks, for {@link #load}. */
  public byte[] dump() throws KvCacheException {
    return Buffers.array(Buffers.grown(1, 1 << 16, (room, count) -> call(i -> Native.kvc_index_dump(i, room, count))));
  }

  /** Loads a dump into an index without workers, with the same numMedia and group. */
  public void load(byte[] dump) throws KvCacheException {
    ByteBuffer own = Buffers.copy(dump);
    call(i -> Native.kvc_index_load(i, own));
  }

  private interface Find {
    void find(long index, LongBuffer workers, ByteBuffer matched, long[] count) throws KvCacheException;
  }

  private List<Match> match(Find find) throws KvCacheException {
    LongBuffer workers = Buffers.longs(maxWorkers);
    ByteBuffer matched = Buffers.bytes(4 * maxWorkers * (1 + numMedia));
    long[] count = new long[1];
    call(i -> find.find(i, workers, matched, count));
    IntBuffer rows = matched.asIntBuffer();
    List<Match> all = new ArrayList<>();
    for (int n = 0; n < count[0]; ++n) {
      int[] media = new int[numMedia];
      rows.get(n * (1 + numMedia) + 1, media);
      all.add(new Match(workers.get(n), rows.get(n * (1 + numMedia)), media));
    }
    return all;
  }

  private static ByteBuffer checked(byte[] root) {
    if (root != null && root.length != 32) {
      throw new IllegalArgumentException("root has " + root.length + " bytes; it needs 32");
    }
    return Buffers.copy(root);
  }

  @Override
  void call(Manager.Call call) throws KvCacheException {
    handle.call(this, call);
  }
}
