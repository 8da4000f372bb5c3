// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;

/**
 * The jobs of a tier that have not ended, with all memory that they use, and the thread that ends them. The memory is reachable until the library has
 * ended the job, or the tier is destroyed.
 */
final class TierJobs implements Runnable {
  static final int ITEM = 88, DATA = 32, BYTES = 40, RUNS = 48, NUM_RUNS = 56, GENERATION = 64, LEASE = 72, RESULT = 80; // kvc_tier_item
  private static final int COMPLETION = 24, MANY = 64;

  private static final class Pending {
    final Tier.Job job;
    final ByteBuffer items;
    final Object[] memory;
    final Tier owner; // which lives as long as its jobs
    volatile long id, deadline;

    Pending(Tier.Job job, ByteBuffer items, Object[] memory, Tier owner) {
      this.job = job;
      this.items = items;
      this.memory = memory;
      this.owner = owner;
    }
  }

  private final Map<Long, Pending> pending = new ConcurrentHashMap<>();
  private final AtomicLong numbers = new AtomicLong();
  private final int wake;
  final Handle handle;
  private Thread thread;
  private volatile boolean stopping, lent;

  TierJobs(long address, int wake) {
    this.wake = wake;
    handle = new Handle("tier", address, it -> {
      Native.kvc_tier_destroy(it); // waits for what runs
      Native.kvc_wake_close(wake);
      fail();
    });
  }

  private void fail() {
    for (Pending p : pending.values()) {
      p.job.completeExceptionally(new IllegalStateException("the tier was closed"));
      Reference.reachabilityFence(p.memory);
    }
    pending.clear();
  }

  /** Enqueues a job, of which `memory` must stay reachable. */
  Tier.Job submit(Tier owner, int kind, JobOptions.Priority priority, ByteBuffer items, JobOptions options, Object... memory) throws KvCacheException {
    long number = numbers.incrementAndGet();
    Pending p = new Pending(new Tier.Job(number), items, memory, owner);
    long now = options.nowNs == Long.MIN_VALUE ? System.nanoTime() : options.nowNs;
    long[] id = new long[1];
    long address = handle.enter();
    try {
      start();
      p.deadline = Long.MAX_VALUE;
      if (options.timeoutNs != 0 && options.timeoutNs < Long.MAX_VALUE / 4) {
        p.deadline = System.nanoTime() + options.timeoutNs + 2_000_000; // a little later than the library's
      }
      pending.put(number, p);
      try {
        own();
        Native.kvc_tier_submit(address, items, kind, priority.ordinal(), now, options.leaseNs, options.timeoutNs, number, id);
      } catch (KvCacheException | RuntimeException refused) {
        pending.remove(number);
        throw refused;
      }
      p.id = id[0];
      if (options.timeoutNs != 0) {
        Native.kvc_wake(wake); // the thread may have to sleep less
      }
    } finally {
      handle.exit();
      Reference.reachabilityFence(memory);
    }
    return p.job;
  }

  /** Cancels what is not begun. False: there is nothing. */
  boolean cancel(Tier.Job job) throws KvCacheException {
    Pending p = pending.get(job.number);
    if (p == null || p.job != job || p.id == 0) {
      return false;
    }
    long address = handle.enter();
    try {
      Native.kvc_tier_cancel(address, p.id);
      return true;
    } catch (KvCacheException error) {
      if (error.status() == Native.KVC_ERROR_NOT_FOUND) {
        return false;
      }
      throw error;
    } finally {
      handle.exit();
    }
  }

  int size() {
    return pending.size();
  }

  /** Throws while an Offload has the tier. */
  void own() throws KvCacheException {
    if (lent) {
      throw new KvCacheException(Native.KVC_ERROR_BUSY, "the tier is an Offload's, which polls it; close that first");
    }
  }

  /** Gives the tier to an Offload until giveBack: returns its address, which stays valid. The thread does not poll meanwhile. */
  synchronized long lend() throws KvCacheException {
    own();
    long address = handle.enter();
    lent = true;
    if (!pending.isEmpty()) {
      giveBack();
      throw new KvCacheException(Native.KVC_ERROR_BUSY, "the tier has jobs of its own; wait for their end");
    }
    Native.kvc_wake(wake);
    return address;
  }

  synchronized void giveBack() {
    lent = false;
    notifyAll();
    handle.exit();
  }

  /** Polls, unless an Offload does. Returns false if the tier was lent. */
  private synchronized boolean poll(long address, ByteBuffer room, long[] count) throws KvCacheException {
    boolean interrupted = false;
    boolean waited = lent;
    while (lent && !stopping) {
      try {
        wait();
      } catch (InterruptedException later) {
        interrupted = true;
      }
    }
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
    if (!waited) {
      Native.kvc_tier_poll(address, room, count);
    }
    return !waited;
  }

  /** Throws if this is a callback of a job, which ends no other job while it waits. */
  void notInCallback() {
    synchronized (this) {
      if (thread == Thread.currentThread()) {
        throw new IllegalStateException("a callback of a job waits for another job; use thenApplyAsync and the like");
      }
    }
  }

  private synchronized void start() {
    if (thread != null || stopping) {
      return;
    }
    handle.enter(); // until the thread ends
    Thread made = new Thread(this, "kvcache tier");
    made.setDaemon(true);
    try {
      made.start();
      thread = made;
    } finally {
      if (thread == null) {
        handle.exit();
      }
    }
  }

  /** Ends the thread, and closes. */
  void close(boolean waits) {
    Thread joined;
    synchronized (this) {
      if (stopping) {
        return;
      }
      stopping = true;
      notifyAll();
      Native.kvc_wake(wake);
      joined = thread;
    }
    boolean interrupted = false;
    while (waits && joined != null && joined != Thread.currentThread() && joined.isAlive()) {
      try {
        joined.join();
      } catch (InterruptedException later) {
        interrupted = true;
      }
    }
    handle.close();
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
  }

  @Override
  public void run() {
    ByteBuffer room = Buffers.bytes(COMPLETION * MANY);
    long[] count = new long[1];
    long address;
    try {
      address = handle.enter();
    } catch (IllegalStateException closed) {
      handle.exit();
      return;
    }
    try {
      while (!stopping) {
        Native.kvc_tier_sleep(address, wake, milliseconds());
        do {
          if (!poll(address, room, count)) {
            break;
          }
          for (int i = 0; i < count[0]; ++i) {
            end(room.getLong(COMPLETION * i + 8), (int) room.getLong(COMPLETION * i + 16));
          }
        } while (count[0] == MANY);
      }
    } catch (KvCacheException impossible) {
      throw new IllegalStateException(impossible);
    } finally {
      handle.exit();
      handle.exit(); // of start()
    }
  }

  /** How long to sleep: until the next deadline. Those that are over are forgotten: the poll that follows ends what is not begun. */
  private int milliseconds() {
    long now = System.nanoTime(), least = Long.MAX_VALUE;
    for (Pending p : pending.values()) {
      if (p.deadline == Long.MAX_VALUE) {
        continue;
      }
      if (p.deadline - now <= 0) {
        p.deadline = Long.MAX_VALUE;
        return 0;
      }
      least = Math.min(least, p.deadline - now);
    }
    return least == Long.MAX_VALUE ? -1 : (int) Math.min(1_000_000, least / 1_000_000 + 1);
  }

  private void end(long number, int numOk) {
    Pending p = pending.get(number);
    int pages = p.items.capacity() / ITEM;
    int[] results = new int[pages];
    long[] generations = new long[pages], leases = new long[pages];
    for (int i = 0; i < pages; ++i) {
      results[i] = p.items.getInt(ITEM * i + RESULT);
      generations[i] = p.items.getLong(ITEM * i + GENERATION);
      leases[i] = p.items.getLong(ITEM * i + LEASE);
    }
    pending.remove(number);
    p.job.complete(new Tier.Done(numOk, results, generations, leases));
    Reference.reachabilityFence(p.memory);
    Reference.reachabilityFence(p.owner);
  }
}
