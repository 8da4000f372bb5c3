// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import java.lang.ref.Reference;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;

/**
 * A queue of work on storages: kvc_stream. A call of a {@link Storage} that is given a stream checks its arguments, enqueues its work and returns.
 * Until the work is done, the buffers of keys, values, queries, masks and bounds must not change, and the results must not be read. The stream
 * keeps these buffers alive. Any thread may use it. Closing waits for its work.
 */
public final class Stream implements AutoCloseable {
  private static final int BATCH = 16; // calls whose buffers are released together

  private record Batch(StreamEvent reached, List<Object> buffers) {}

  /** What the stream's work uses. The handle holds it until the native stream is destroyed. */
  private static final class Kept {
    private List<Object> latest = new ArrayList<>();
    private final ArrayDeque<Batch> batches = new ArrayDeque<>();

    /** Keeps the buffers of the call that was just enqueued. */
    synchronized void add(long stream, Object buffers) {
      latest.add(buffers);
      try {
        if (latest.size() >= BATCH) {
          StreamEvent event = new StreamEvent();
          event.use(address -> Native.kvc_stream_event_record(address, stream));
          batches.add(new Batch(event, latest));
          latest = new ArrayList<>();
        }
        while (!batches.isEmpty() && batches.peek().reached.done()) {
          batches.poll().reached.close();
        }
      } catch (KvCacheException error) { // no memory for an event: the call is enqueued, and its buffers are kept longer
        return;
      }
    }

    /** Removes and returns everything. */
    synchronized List<Batch> take() {
      List<Batch> all = new ArrayList<>(batches);
      all.add(new Batch(null, latest));
      batches.clear();
      latest = new ArrayList<>();
      return all;
    }

    static void release(List<Batch> done) {
      for (Batch batch : done) {
        if (batch.reached != null) {
          batch.reached.close();
        }
        Reference.reachabilityFence(batch.buffers);
      }
    }
  }

  final Handle handle;
  private final Kept kept = new Kept();

  /** Creates a stream of the CPU, which has a thread. */
  public Stream() throws KvCacheException {
    this("cpu");
  }

  /** Creates a stream of a device. */
  public Stream(String device) throws KvCacheException {
    long[] out = new long[1];
    Native.kvc_stream_create(device, out);
    Kept own = kept;
    handle = new Handle("stream", out[0], address -> {
      Native.kvc_stream_destroy(address); // waits for its work
      Kept.release(own.take());
    });
    handle.ownedBy(this);
  }

  @Override
  public void close() {
    handle.close();
  }

  /** Waits for the work that is in the stream now. */
  public void sync() throws KvCacheException {
    use(stream -> {
      List<Batch> done = kept.take();
      Native.kvc_stream_synchronize(stream);
      Kept.release(done);
    });
  }

  /** Work that is enqueued from now on waits for the event, as it was last recorded before this call. */
  public void await(StreamEvent event) throws KvCacheException {
    use(stream -> event.use(address -> Native.kvc_stream_wait_event(stream, address)));
  }

  void use(Manager.Call call) throws KvCacheException {
    handle.call(this, call);
  }

  /** Enqueues a call, and keeps its buffers until its work is done. */
  void enqueue(Manager.Call call, Object... buffers) throws KvCacheException {
    use(stream -> {
      call.run(stream);
      kept.add(stream, buffers);
    });
  }
}
