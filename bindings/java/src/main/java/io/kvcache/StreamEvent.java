// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

/** A point in a stream that the host or other streams can wait for: kvc_stream_event. Before it is recorded it counts as reached. */
public final class StreamEvent implements AutoCloseable {
  private final Handle handle;

  /** Creates an event of the CPU. */
  public StreamEvent() throws KvCacheException {
    long[] out = new long[1];
    Native.kvc_stream_event_create("cpu", out);
    handle = new Handle("event", out[0], Native::kvc_stream_event_destroy);
    handle.ownedBy(this);
  }

  @Override
  public void close() {
    handle.close();
  }

  /** Moves the event to the present end of the stream. */
  public void record(Stream stream) throws KvCacheException {
    use(event -> stream.use(address -> Native.kvc_stream_event_record(event, address)));
  }

  /** Whether all work before the event is done. */
  public boolean done() throws KvCacheException {
    long[] done = new long[1];
    use(event -> Native.kvc_stream_event_query(event, done));
    return done[0] != 0;
  }

  /** Waits until all work before the event is done. */
  public void sync() throws KvCacheException {
    use(Native::kvc_stream_event_synchronize);
  }

  void use(Manager.Call call) throws KvCacheException {
    long address = handle.enter();
    try {
      call.run(address);
    } finally {
      handle.exit();
    }
  }
}
