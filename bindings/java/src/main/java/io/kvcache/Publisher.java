// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import java.nio.ByteBuffer;

/**
 * Publishes a manager's events to routers, in the schema of vLLM: kvc_publisher. Any thread may use it. It keeps its manager alive, whichever of them is
 * closed first. docs/EVENTS.md is the manual.
 */
public final class Publisher extends PublisherCalls implements AutoCloseable {
  /** A batch that is kept: its number, and its bytes in MessagePack. */
  public record Batch(long sequence, byte[] payload) {}

  /** How events are published: kvc_publisher_config, with its defaults for what is not set. */
  public static final class Config {
    private String url, topic, medium, hashSeed;
    private Hash hash = Hash.DIGEST;
    private int flags, rank, maxBlocks, replayBatches;
    private long groups, intervalNs, replayBytes, resyncIntervalNs;

    /** Transport, such as {@code zmq:tcp://0.0.0.0:5557?replay=tcp://0.0.0.0:5558}; without one, {@link #read} gives the batches. */
    public Config url(String value) {
      url = value;
      return this;
    }

    /** First frame of each message. */
    public Config topic(String value) {
      topic = value;
      return this;
    }

    /** Where the blocks are; GPU by default. */
    public Config medium(String value) {
      medium = value;
      return this;
    }

    /** What blocks are called. seed: with VLLM its PYTHONHASHSEED; null = vLLM's own default. */
    public Config hash(Hash value, String seed) {
      hash = value;
      hashSeed = seed;
      return this;
    }

    /** A thread of its own publishes, every so many nanoseconds; 0 = 10 ms, at most 1 s. */
    public Config thread(long interval) {
      flags |= Native.KVC_PUBLISHER_THREAD;
      intervalNs = interval;
      return this;
    }

    /** Events are arrays, as before vLLM 0.26, not maps. */
    public Config arrays() {
      flags |= Native.KVC_PUBLISHER_ARRAYS;
      return this;
    }

    /** Hashes are 32 bytes, not integers. */
    public Config bytesHashes() {
      flags |= Native.KVC_PUBLISHER_BYTES;
      return this;
    }

    /** Data parallel rank; -1 = nil. */
    public Config rank(int value) {
      flags = value < 0 ? flags | Native.KVC_PUBLISHER_NO_RANK : flags & ~Native.KVC_PUBLISHER_NO_RANK;
      rank = Math.max(value, 0);
      return this;
    }

    /** Groups to publish, bit g is group g; 0 = all. named: events name their group. */
    public Config groups(long mask, boolean named) {
      groups = mask;
      flags = named ? flags & ~Native.KVC_PUBLISHER_NO_GROUPS : flags | Native.KVC_PUBLISHER_NO_GROUPS;
      return this;
    }

    /** Blocks of a batch (0 = 1024); batches to keep, and bytes for them (0 = 10,000, and 64 MiB). */
    public Config batches(int blocks, int kept, long bytes) {
      maxBlocks = Sizes.count("blocks", blocks);
      replayBatches = Sizes.count("kept", kept);
      replayBytes = bytes;
      return this;
    }

    /** A subscriber that asks for a batch that is gone starts a resync, but none sooner after the last one; 0 = 10 s, -1 = never. */
    public Config resyncInterval(long nanoseconds) {
      resyncIntervalNs = nanoseconds;
      return this;
    }
  }

  private final Handle handle;

  /**
   * Makes a publisher of a manager with events. Config may be null. Statuses: INVALID_ARGUMENT, UNSUPPORTED (no events; the plug-in is no transport),
   * NOT_FOUND (the plug-in), BUSY (an address in use), OUT_OF_MEMORY.
   */
  public Publisher(Manager manager, Config config) throws KvCacheException {
    Config c = config == null ? new Config() : config;
    long[] out = new long[1];
    long m = manager.handle.enter();
    try {
      Native.kvc_publisher_create(m, c.url, c.topic, c.medium, c.hashSeed, c.groups, c.intervalNs, c.replayBytes, c.resyncIntervalNs, c.replayBatches,
          c.maxBlocks, c.rank, c.hash.ordinal(), c.flags, out);
    } catch (KvCacheException | RuntimeException error) {
      manager.handle.exit();
      throw error;
    }
    Handle used = manager.handle;
    handle = new Handle("publisher", out[0], address -> {
      Native.kvc_publisher_destroy(address);
      used.exit();
    });
    handle.ownedBy(this);
  }

  /** Publishes what has happened until now, and ends the publisher. */
  @Override
  public void close() {
    handle.close();
  }

  @Override
  void call(Manager.Call call) throws KvCacheException {
    handle.call(this, call);
  }

  /** Returns the first batch that is kept and whose number is not below this one; null if there is none yet. */
  public Batch read(long sequence) throws KvCacheException {
    long[] found = new long[1];
    try {
      ByteBuffer batch = Buffers.grown(1, 1 << 16, (room, count) -> call(p -> Native.kvc_publisher_read(p, sequence, room, found, count)));
      return new Batch(found[0], Buffers.array(batch));
    } catch (KvCacheException error) {
      if (error.status() == Native.KVC_ERROR_NOT_FOUND) {
        return null;
      }
      throw error;
    }
  }

  /**
   * Says what subscribers know of a namespace, before it has blocks: the name of its adapter; with VLLM, where that was loaded from; the salt of its
   * requests. null = absent.
   */
  public void nameNamespace(long namespace, String loraName, String loraPath, String cacheSalt) throws KvCacheException {
    call(p -> Native.kvc_publisher_name_namespace(p, namespace, loraName, loraPath, cacheSalt));
  }
}
