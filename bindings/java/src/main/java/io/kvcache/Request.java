// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import java.nio.IntBuffer;
import java.nio.LongBuffer;

/** A sequence of tokens and its blocks. Closing frees it; its published blocks stay cached. Closing again does nothing. */
public final class Request implements AutoCloseable {
  private final Manager manager;
  private final long id;
  private long cached;
  private boolean freed;

  Request(Manager manager, long id, long cached) {
    this.manager = manager;
    this.id = id;
    this.cached = cached;
  }

  /** The id, for the arrays of a step. */
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

  /** Gives the request slots for capacity tokens in all; their ids may come later. */
  public void reserve(long capacity) throws KvCacheException {
    Sizes.count("capacity", capacity);
    manager.call(m -> Native.kvc_manager_reserve_tokens(m, id, capacity));
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

  /** Keeps the first tokens (an absolute count) and returns the blocks of the rest. */
  public void truncate(long tokens) throws KvCacheException {
    Sizes.count("tokens", tokens);
    manager.call(m -> Native.kvc_manager_truncate_request(m, id, tokens));
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

  /**
   * Says that nobody will continue this request: when it is freed, what nobody else uses of it is evicted before all else, except its first
   * sharedTokens tokens. Needs {@link Config#hints}.
   */
  public void endSession(long sharedTokens) throws KvCacheException {
    Sizes.count("sharedTokens", sharedTokens);
    manager.call(m -> Native.kvc_manager_end_session(m, id, sharedTokens));
  }

  /** Returns all blocks of the request, which then waits and keeps its tokens. */
  public void preempt() throws KvCacheException {
    manager.call(m -> Native.kvc_manager_preempt_request(m, id));
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

  /** Returns the state of the request. */
  public Info info() throws KvCacheException {
    try (kvc_request_info info = new kvc_request_info()) {
      manager.call(m -> Native.kvc_manager_request_info(m, id, info));
      return new Info(info.getNum_tokens(), info.getNum_committed(), info.getCapacity(), info.getNum_blocks(), info.getAdmitted() != 0,
          info.getNext_checkpoint(), info.getCross_tokens(), info.getNum_cross_cached(),
          info.getLost_reuse_tokens(), (int) info.getLost_group(), (int) info.getLost_reason());
    }
  }

  /**
   * State of a request: kvc_request_info.
   *
   * @param nextCheckpoint state groups: the next number of tokens above numCommitted whose state is worth keeping: end a step there, and
   *     commit it; 0 = none
   * @param crossTokens tokens of the request's encoder
   * @param numCrossCached as many if the last admission found their KV, else 0
   * @param lostReuseTokens tokens that one group had cached and another had not, at the last admission
   * @param lostGroup if some were lost: the group that alone had least, the first of equal ones
   * @param lostReason why most of it was lost: 0 nothing was, 1 a block of full attention or of the sink tokens, 2 a block of the window or
   *     the chunk, 3 no checkpoint of a state, 4 the groups do not end at the same place
   */
  public record Info(long numTokens, long numCommitted, long capacity, long numBlocks, boolean admitted, long nextCheckpoint,
      long crossTokens, long numCrossCached, long lostReuseTokens, int lostGroup, int lostReason) {}

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
