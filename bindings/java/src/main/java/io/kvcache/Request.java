// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import java.nio.IntBuffer;
import java.nio.LongBuffer;

/** A sequence of tokens and its blocks. Closing frees it; its published blocks stay cached. Closing again does nothing. */
public final class Request extends RequestCalls implements AutoCloseable {
  private final Manager manager;
  private final long id;
  private long cached;
  private boolean freed;

  Request(Manager manager, long id, long cached) {
    this.manager = manager;
    this.id = id;
    this.cached = cached;
  }

  @Override
  void call(Manager.Call call) throws KvCacheException {
    manager.call(call);
  }

  /** The id, for the arrays of a step. */
  @Override
  public long id() {
    return id;
  }

  /** Tokens of the hit at the last admission by this object. They need no compute. */
  public long cached() {
    return cached;
  }

  /** Admits a waiting request and returns the tokens of its hit. */
  public long admit() throws KvCacheException {
    cached = manager.ask((m, out) -> Native.kvc_manager_admit_request(m, id, out));
    return cached;
  }

  /** Appends known tokens. An admitted request gets slots for them. */
  public void append(IntBuffer tokens) throws KvCacheException {
    manager.call(m -> Native.kvc_manager_append_tokens(m, id, tokens));
  }

  /** The same, with tokens that are copied. */
  public void append(int... tokens) throws KvCacheException {
    append(Buffers.copy(tokens));
  }

  /**
   * Adds extra keys: what tokens stand for that the request gets later, such as an image in the next input of a session. Call it before the
   * tokens are committed. Keys that the request has already are left out.
   */
  public void addKeys(RequestOptions.ExtraKey... keys) throws KvCacheException {
    manager.call(m -> Native.kvc_manager_add_keys(m, id, RequestOptions.ExtraKey.pack(keys)));
  }

  /** States that the KV of the first committed tokens (an absolute count) is written. Full blocks are published. */
  public void commit(long committed) throws KvCacheException {
    Sizes.count("committed", committed);
    long m = manager.handle.enter();
    try {
      Native.kvc_manager_commit_tokens(m, id, committed);
    } finally {
      manager.handle.exit();
    }
  }

  /** Creates a request with the committed tokens of this one; they share all blocks. BUSY while it waits, and while its encoder is not written. */
  public Request fork() throws KvCacheException {
    return new Request(manager, manager.ask((m, out) -> Native.kvc_manager_fork_request(m, id, out)), 0);
  }

  /**
   * Hints a range of tokens, those that will be generated included: priority 0 (evicted first) to 100, 35 without a hint. numTokens -1 = to the end.
   * untilNs is when the hint ends, in the time of {@link Manager#setTime}; 0 = never. Needs {@link Config#hints}.
   */
  public void setPriority(long firstToken, long numTokens, int priority, long untilNs) throws KvCacheException {
    Sizes.count("firstToken", firstToken);
    Sizes.count("priority", priority);
    Sizes.count("untilNs", untilNs);
    if (numTokens != -1) {
      Sizes.count("numTokens", numTokens);
    }
    manager.call(m -> Native.kvc_manager_set_priority(m, id, firstToken, numTokens, priority, untilNs));
  }

  /** Frees the request. Freeing again is an error, unlike closing. */
  public void free() throws KvCacheException {
    manager.call(m -> Native.kvc_manager_free_request(m, id));
    freed = true;
  }

  @Override
  public void close() throws KvCacheException {
    if (!freed) {
      free();
    }
  }

  /** Returns the block table of a group: block ids, -1 for entries that left a window. */
  public int[] blockTable(int group) throws KvCacheException {
    int size = manager.blockSize();
    Info info = info();
    long tokens = !info.admitted() ? 0 : manager.isCross(group) ? info.crossTokens() : info.capacity();
    int[] table = new int[(int) ((tokens + size - 1) / size)];
    IntBuffer room = Buffers.ints(table.length);
    LongBuffer one = Buffers.longs(1).put(0, id);
    manager.exportTables(one, group, -1, room);
    room.get(table);
    return table;
  }

  @Override
  public String toString() {
    String name = "Request[id " + Long.toUnsignedString(id);
    try {
      Info info = info();
      return name + ", " + info.numTokens() + " tokens, " + info.numCommitted() + " committed, "
          + (info.admitted() ? info.numBlocks() + " blocks]" : "waiting]");
    } catch (KvCacheException freed) {
      return name + ", freed]";
    } catch (IllegalStateException closed) {
      return name + ", manager closed]";
    }
  }

  /** Writes the slots (block id * block size + offset) of tokens firstToken, firstToken + 1, ...; -1 for tokens that left the window. */
  public void slots(int group, long firstToken, LongBuffer slots) throws KvCacheException {
    Sizes.count("group", group);
    Sizes.count("firstToken", firstToken);
    manager.call(m -> Native.kvc_manager_export_slots(m, id, group, firstToken, slots));
  }
}
