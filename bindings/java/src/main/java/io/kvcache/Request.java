// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import java.nio.IntBuffer;
import java.nio.LongBuffer;

/** A token sequence and its blocks. Closing frees it, what it published stays cached; closing again does nothing. */
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

  /** What arrays of a step take. */
  public long id() {
    return id;
  }

  /** Tokens of the hit at the last admission by this object: they need no compute. */
  public long cached() {
    return cached;
  }

  /** Admits a waiting request and returns the tokens of its hit. */
  public long admit() throws KvCacheException {
    cached = manager.ask((m, out) -> Native.kvc_manager_admit_request(m, id, out));
    return cached;
  }

  /** Appends known tokens; an admitted request gets slots for them. */
  public void append(IntBuffer tokens) throws KvCacheException {
    manager.call(m -> Native.kvc_manager_append_tokens(m, id, tokens));
  }

  /** The same with tokens that are copied. */
  public void append(int... tokens) throws KvCacheException {
    append(Buffers.copy(tokens));
  }

  /** Gives slots up to capacity tokens in all, whose ids may come later. */
  public void reserve(long capacity) throws KvCacheException {
    manager.call(m -> Native.kvc_manager_reserve_tokens(m, id, capacity));
  }

  /** The KV of the first tokens (absolute) is written: full blocks become findable. */
  public void commit(long committed) throws KvCacheException {
    long m = manager.handle.enter();
    try {
      Native.kvc_manager_commit_tokens(m, id, committed);
    } finally {
      manager.handle.exit();
    }
  }

  /** Keeps the first tokens (absolute) and gives the rest back. */
  public void truncate(long tokens) throws KvCacheException {
    manager.call(m -> Native.kvc_manager_truncate_request(m, id, tokens));
  }

  /** A request with the committed tokens of this one, sharing all their blocks. */
  public Request fork() throws KvCacheException {
    return new Request(manager, manager.ask((m, out) -> Native.kvc_manager_fork_request(m, id, out)), 0);
  }

  /** Takes all blocks and makes it wait; tokens are kept. */
  public void preempt() throws KvCacheException {
    manager.call(m -> Native.kvc_manager_preempt_request(m, id));
  }

  /** Ends the request. Doing so twice is an error, unlike closing. */
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

  /** Known tokens, committed tokens, tokens that have slots. */
  public Info info() throws KvCacheException {
    kvc_request_info info = new kvc_request_info();
    try {
      manager.call(m -> Native.kvc_manager_request_info(m, id, info));
      return new Info(info.getNum_tokens(), info.getNum_committed(), info.getCapacity(), info.getNum_blocks(), info.getAdmitted() != 0);
    } finally {
      info.delete();
    }
  }

  /** State of a request. */
  public record Info(long numTokens, long numCommitted, long capacity, long numBlocks, boolean admitted) {}

  /** The block table of a group: block ids, or -1 where a window has passed. */
  public int[] blockTable(int group) throws KvCacheException {
    int size = manager.blockSize();
    int[] table = new int[(int) ((info().capacity() + size - 1) / size)];
    IntBuffer room = Buffers.ints(table.length);
    LongBuffer one = Buffers.longs(1).put(0, id);
    manager.exportTables(one, group, -1, room);
    room.get(table);
    return table;
  }

  /** Writes where tokens firstToken, ... go: block id * block size + offset; -1 where a window has passed. */
  public void slots(int group, long firstToken, LongBuffer slots) throws KvCacheException {
    manager.call(m -> Native.kvc_manager_export_slots(m, id, group, firstToken, slots));
  }
}
