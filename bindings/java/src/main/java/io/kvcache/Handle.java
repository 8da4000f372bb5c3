// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import java.lang.ref.Reference;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * The address of an object of the library, with a count of its users: the owner until close, and every call in flight. The last user destroys it,
 * so that a close in one thread never frees memory that a call in another thread uses.
 */
final class Handle {
  interface Destroy {
    void destroy(long address);
  }

  /** Number of objects of the library that exist, to find leaks. */
  static final java.util.concurrent.atomic.AtomicLong LIVE = new java.util.concurrent.atomic.AtomicLong();

  private final String name;
  private final long address;
  private final Destroy destroy;
  private final AtomicInteger users = new AtomicInteger(1);
  private final AtomicInteger owners = new AtomicInteger();
  private volatile boolean closed;

  Handle(String name, long address, Destroy destroy) {
    this.name = name;
    this.address = address;
    this.destroy = destroy;
    LIVE.incrementAndGet();
  }

  /** The address, until exit. */
  long enter() {
    int now = users.get();
    while (!closed && now != 0) {
      if (users.compareAndSet(now, now + 1)) {
        return address;
      }
      now = users.get();
    }
    throw new IllegalStateException("the " + name + " is closed");
  }

  /** Runs a call on the open object of an owner, who is reachable until it has ended. */
  void call(Object owner, Manager.Call call) throws KvCacheException {
    long address = enter();
    try {
      call.run(address);
    } finally {
      exit();
      Reference.reachabilityFence(owner);
    }
  }

  /** Throws if the object is closed. */
  void check() {
    if (closed) {
      throw new IllegalStateException("the " + name + " is closed");
    }
  }

  void exit() {
    if (users.decrementAndGet() == 0) {
      destroy.destroy(address);
      LIVE.decrementAndGet();
    }
  }

  /** Closes the object. Closing again does nothing. */
  void close() {
    synchronized (this) {
      if (closed) {
        return;
      }
      closed = true;
    }
    exit();
  }

  /** Closes when all owners are unreachable: the object, and the buffers over its memory. */
  void ownedBy(Object owner) {
    owners.incrementAndGet();
    Manager.CLEANER.register(owner, () -> {
      if (owners.decrementAndGet() == 0) {
        close();
      }
    });
  }
}
