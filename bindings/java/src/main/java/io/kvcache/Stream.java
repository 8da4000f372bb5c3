// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;

/**
 * A queue of work on storages: kvc_stream. Calls of a {@link Storage} that are given one check their arguments, enqueue and return. Until the
 * work is done nobody else may change the buffers of keys, values, queries, masks and bounds, or read the results; the stream keeps them
 * alive. Any thread may use it. Closing waits for its work.
 */
public final class Stream implements AutoCloseable {
  private static final int BATCH = 16; // calls whose buffers are let go together

  private record Batch(StreamEvent reached, List<Object> buffers) {}

  final Handle handle;
  private List<Object> kept = new ArrayList<>();
  private final ArrayDeque<Batch> batches = new ArrayDeque<>();

  /** On the CPU, with a thread of its own. */
  public Stream() throws KvCacheException {
    this("cpu");
  }

  /** Of a device by name. */
  public Stream(String device) throws KvCacheException {
    long[] out = new long[1];
    Native.kvc_stream_create(device, out);
    handle = new Handle("stream", out[0], Native::kvc_stream_destroy);
    Manager.CLEANER.register(this, handle);
  }

  @Override
  public void close() {
    handle.close();
    synchronized (this) {
      kept.clear();
      batches.forEach(batch -> batch.reached.close());
      batches.clear();
    }
  }

  /** Waits until what has been enqueued so far is done. */
  public void sync() throws KvCacheException {
    List<Object> done;
    List<Batch> batchesDone;
    synchronized (this) {
      done = kept;
      kept = new ArrayList<>();
      batchesDone = new ArrayList<>(batches);
      batches.clear();
    }
    use(Native::kvc_stream_synchronize);
    batchesDone.forEach(batch -> batch.reached.close());
    java.lang.ref.Reference.reachabilityFence(done);
  }

  /** What is enqueued from now on is done after the event's place, as recorded last before this call. */
  public void await(StreamEvent event) throws KvCacheException {
    use(stream -> event.use(address -> Native.kvc_stream_wait_event(stream, address)));
  }

  void use(Manager.Call call) throws KvCacheException {
    long address = handle.enter();
    try {
      call.run(address);
    } finally {
      handle.exit();
    }
  }

  /** Buffers of a call that was enqueued just now live until it is done. */
  synchronized void keep(Object... buffers) throws KvCacheException {
    kept.add(buffers);
    if (kept.size() >= BATCH) {
      StreamEvent event = new StreamEvent();
      event.record(this);
      batches.add(new Batch(event, kept));
      kept = new ArrayList<>();
    }
    while (!batches.isEmpty() && batches.peek().reached.done()) {
      batches.poll().reached.close();
    }
  }
}
