// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.IntBuffer;
import java.nio.LongBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Random;

/**
 * Arguments that are mostly right: numbers, some near limits, and buffers, of which some are null, on the heap, read-only, of the wrong order,
 * empty, too short or long, at odd addresses, or shared. Buffers end where a file does, in pages behind which access ends the process.
 */
final class Hostile {
  private static final int GUARDED = 1 << 16, LARGEST = 1 << 22, PAGE = 1 << 12;
  private static final long[] LIMITS = {-1, -8, -2, Long.MIN_VALUE, Long.MAX_VALUE, 1L << 62, 1L << 40, 1L << 32, (1L << 32) + 4, (1L << 32) - 1, 1L << 31,
    Integer.MAX_VALUE, 65535, 65536, 65537, 8192, 8193};

  final Random random;
  private final ByteBuffer[] guarded = new ByteBuffer[48];
  private final ByteBuffer shared = Buffers.bytes(GUARDED);
  private int next;

  Hostile(long seed) throws IOException {
    random = new Random(seed);
    for (int i = 0; i < guarded.length; ++i) {
      Path file = Files.createTempFile("kvcache", "fuzz");
      try (FileChannel channel = FileChannel.open(file, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
        guarded[i] = channel.map(FileChannel.MapMode.READ_WRITE, 0, GUARDED + PAGE);
        channel.truncate(GUARDED);
      } finally {
        Files.delete(file);
      }
    }
  }

  boolean rarely(int oneIn) {
    return random.nextInt(oneIn) == 0;
  }

  long oneOf(long... numbers) {
    return numbers[random.nextInt(numbers.length)];
  }

  long number() {
    return rarely(4) ? LIMITS[random.nextInt(LIMITS.length)] : random.nextInt(20);
  }

  int integer() {
    return (int) number();
  }

  /** Mostly below n. */
  long small(int n) {
    return rarely(8) ? number() : random.nextInt(n);
  }

  private int length(int n) {
    return switch (random.nextInt(40)) {
      case 0 -> 0;
      case 1 -> n + 1;
      case 2 -> 2 * n;
      case 3 -> Math.max(n - 1, 0);
      default -> n;
    };
  }

  /** Memory of exactly so many bytes, at a multiple of `unit`. */
  private ByteBuffer room(int bytes) {
    if (bytes > GUARDED) {
      return ByteBuffer.allocateDirect(bytes);
    }
    next = (next + 1) % guarded.length;
    return guarded[next].slice(GUARDED - bytes, bytes);
  }

  private ByteBuffer bytes(int wanted, int unit) {
    int bytes = Math.min(wanted, LARGEST); // a large enough lie, and no strain on the machine
    return switch (random.nextInt(60)) {
      case 0 -> null;
      case 1 -> ByteBuffer.allocate(bytes);
      case 2 -> room(bytes).asReadOnlyBuffer();
      case 3 -> room(bytes + 1).slice(0, bytes); // at an odd address, if the end was even
      case 4, 5 -> room(bytes + 2 * unit).position(unit).limit(unit + bytes);
      case 6, 7 -> shared.slice(unit * random.nextInt(16), Math.min(bytes, GUARDED - 16 * unit));
      default -> room(bytes);
    };
  }

  /** Of elements of `unit` bytes. */
  ByteBuffer data(int elements, int unit) {
    return bytes(length(elements) * unit, unit);
  }

  ByteBuffer floats(int elements) {
    ByteBuffer buffer = data(elements, 4);
    if (buffer != null && !buffer.isReadOnly() && buffer.isDirect()) {
      for (int at = buffer.position(); at + 4 <= buffer.limit(); at += 4) {
        buffer.order(ByteOrder.nativeOrder()).putFloat(at, random.nextFloat());
      }
    }
    return buffer;
  }

  interface Element {
    long next();
  }

  private ByteOrder order() {
    return rarely(80) ? ByteOrder.BIG_ENDIAN : ByteOrder.nativeOrder();
  }

  LongBuffer longs(int count, Element element) {
    ByteBuffer memory = data(count, 8);
    if (memory == null) {
      return null;
    }
    LongBuffer longs = (memory.position() == 0 ? memory : memory.slice()).order(order()).asLongBuffer();
    for (int i = 0; i < longs.limit() && !longs.isReadOnly(); ++i) {
      longs.put(i, element.next());
    }
    return longs.limit() > 1 && rarely(8) ? longs.position(1) : longs;
  }

  IntBuffer ints(int count, Element element) {
    ByteBuffer memory = data(count, 4);
    if (memory == null) {
      return null;
    }
    IntBuffer ints = (memory.position() == 0 ? memory : memory.slice()).order(order()).asIntBuffer();
    for (int i = 0; i < ints.limit() && !ints.isReadOnly(); ++i) {
      ints.put(i, (int) element.next());
    }
    return ints.limit() > 1 && rarely(8) ? ints.position(1) : ints;
  }

  /** The same with given values. */
  LongBuffer longs(long... values) {
    int[] at = {0};
    return longs(values.length, () -> at[0] < values.length ? values[at[0]++] : number());
  }

  /** Values in memory that another buffer has, too; null where there is no room for them. */
  LongBuffer over(ByteBuffer memory, long... values) {
    if (memory == null || memory.isReadOnly() || !memory.isDirect() || memory.remaining() < 8 * values.length) {
      return null;
    }
    return memory.slice().order(ByteOrder.nativeOrder()).asLongBuffer().put(values).flip();
  }
}
