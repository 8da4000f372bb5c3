// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.IntBuffer;
import java.nio.LongBuffer;

/** Makes direct buffers in native order, and checks buffers, from position to limit, before native code sees them. */
public final class Buffers {
  private static final ThreadLocal<IntBuffer> SCRATCH = ThreadLocal.withInitial(() -> ints(64));

  private Buffers() {}

  /** Returns a buffer of ints that calls use in place. */
  public static IntBuffer ints(int count) {
    return bytes(Math.multiplyExact(count, 4)).asIntBuffer();
  }

  /** Returns a buffer of longs that calls use in place. */
  public static LongBuffer longs(int count) {
    return bytes(Math.multiplyExact(count, 8)).asLongBuffer();
  }

  /** Returns a buffer of bytes that calls use in place. */
  public static ByteBuffer bytes(int count) {
    return ByteBuffer.allocateDirect(count).order(ByteOrder.nativeOrder());
  }

  /** Returns a buffer with these ints. */
  public static IntBuffer of(int... values) {
    return ints(values.length).put(values).flip();
  }

  /** Copies the values to this thread's scratch buffer, valid until its next use. */
  static IntBuffer copy(int... values) {
    IntBuffer scratch = SCRATCH.get();
    if (scratch.capacity() < values.length) {
      scratch = ints(Math.max(values.length, scratch.capacity() * 2));
      SCRATCH.set(scratch);
    }
    return scratch.clear().put(values).flip();
  }

  interface Filling {
    void fill(ByteBuffer room, long[] count) throws KvCacheException;
  }

  /** Calls with more and more room for elements of so many bytes until the room is enough. Returns what was filled. */
  static ByteBuffer grown(int bytes, int first, Filling filling) throws KvCacheException {
    long[] count = new long[1];
    for (int size = first;; size = Math.multiplyExact(size, 4)) {
      ByteBuffer room = bytes(Math.multiplyExact(bytes, size));
      try {
        filling.fill(room, count);
        return room.limit(Math.toIntExact(bytes * count[0]));
      } catch (KvCacheException error) {
        if (error.status() != Native.KVC_ERROR_BUFFER_TOO_SMALL) {
          throw error;
        }
      }
    }
  }

  /** The bytes from position to limit. */
  static byte[] array(ByteBuffer buffer) {
    byte[] own = new byte[buffer.remaining()];
    buffer.get(own);
    return own;
  }

  static ByteBuffer copy(byte[] values) {
    return values == null ? null : bytes(values.length).put(values).flip();
  }

  static IntBuffer readable(IntBuffer buffer) {
    return buffer == null ? null : checked(buffer, buffer.order()).slice();
  }

  static LongBuffer readable(LongBuffer buffer) {
    return buffer == null ? null : checked(buffer, buffer.order()).slice();
  }

  static ByteBuffer readable(ByteBuffer buffer) {
    return buffer == null ? null : checked(buffer, ByteOrder.nativeOrder()).slice();
  }

  static IntBuffer writable(IntBuffer buffer) {
    return readable(notReadOnly(buffer));
  }

  static LongBuffer writable(LongBuffer buffer) {
    return readable(notReadOnly(buffer));
  }

  static ByteBuffer writable(ByteBuffer buffer) {
    return readable(notReadOnly(buffer));
  }

  private static <T extends Buffer> T checked(T buffer, ByteOrder order) {
    if (!buffer.isDirect() || order != ByteOrder.nativeOrder()) {
      throw new IllegalArgumentException("a buffer must be direct and in native order; make it with io.kvcache.Buffers");
    }
    return buffer;
  }

  private static <T extends Buffer> T notReadOnly(T buffer) {
    if (buffer != null && buffer.isReadOnly()) {
      throw new IllegalArgumentException("a result cannot be written into a read-only buffer");
    }
    return buffer;
  }
}
