// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

/** A place in a stream that others can wait for: kvc_stream_event. One that was never recorded counts as reached. */
public final class StreamEvent implements AutoCloseable {
  private final Handle handle;

  /** Of the CPU. */
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

  /** Puts the event at the present end of the stream, in place of where it was. */
  public void record(Stream stream) throws KvCacheException {
    use(event -> stream.use(address -> Native.kvc_stream_event_record(event, address)));
  }

  /** Whether all work before the event's place is done. */
  public boolean done() throws KvCacheException {
    long[] done = new long[1];
    use(event -> Native.kvc_stream_event_query(event, done));
    return done[0] != 0;
  }

  /** Waits until the event's place is reached. */
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
