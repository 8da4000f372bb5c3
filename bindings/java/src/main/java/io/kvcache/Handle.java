// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import java.util.concurrent.atomic.AtomicInteger;

/**
 * The address of an object of the library, counting who uses it: its owner until close, and every call in flight. The last to go destroys
 * it, so that a close in one thread never pulls memory away under a call in another.
 */
final class Handle {
  interface Destroy {
    void destroy(long address);
  }

  /** Objects of the library that exist, to find leaks. */
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

  void exit() {
    if (users.decrementAndGet() == 0) {
      destroy.destroy(address);
      LIVE.decrementAndGet();
    }
  }

  /** Ends use. Doing so again does nothing. */
  void close() {
    synchronized (this) {
      if (closed) {
        return;
      }
      closed = true;
    }
    exit();
  }

  /** Closes once all owners are forgotten: the object, and buffers that are memory of it. */
  void ownedBy(Object owner) {
    owners.incrementAndGet();
    Manager.CLEANER.register(owner, () -> {
      if (owners.decrementAndGet() == 0) {
        close();
      }
    });
  }
}
