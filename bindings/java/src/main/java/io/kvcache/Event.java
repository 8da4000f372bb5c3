// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import java.nio.ByteBuffer;
import java.util.List;

/**
 * A change of what can be found: kvc_event. A gap in sequence means that events were lost.
 *
 * @param tokens the tokens of the position
 */
public record Event(long sequence, long timeNs, long epoch, long namespace, long node, long parentNode, long tokenOffset, int kind, int group,
    int block, byte[] digest, byte[] parentDigest, byte[] extraDigest, int[] tokens) {
  /** Kinds of events. */
  public static final int STORED = Native.KVC_EVENT_STORED, REMOVED = Native.KVC_EVENT_REMOVED,
      NAMESPACE_CLEARED = Native.KVC_EVENT_NAMESPACE_CLEARED, ALL_CLEARED = Native.KVC_EVENT_ALL_CLEARED;

  /**
   * Some events, and where to go on.
   *
   * @param events in order
   * @param next the cursor for the next read
   */
  public record Batch(List<Event> events, long next) {}

  /** Writes a kvc_event. */
  void write(ByteBuffer to) {
    for (long number : new long[] {sequence, timeNs, epoch, namespace, node, parentNode, tokenOffset}) {
      to.putLong(number);
    }
    to.putInt(kind).putInt(group).putInt(tokens.length).putInt(block);
    to.put(digest).put(parentDigest).put(extraDigest);
  }

  static Event read(ByteBuffer from, java.nio.IntBuffer tokens) {
    long[] numbers = new long[7];
    for (int i = 0; i < numbers.length; ++i) {
      numbers[i] = from.getLong();
    }
    int kind = from.getInt(), group = from.getInt();
    int[] own = new int[from.getInt()];
    int block = from.getInt();
    byte[][] digests = new byte[3][32];
    for (byte[] digest : digests) {
      from.get(digest);
    }
    tokens.get(own);
    return new Event(numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5], numbers[6], kind, group, block, digests[0],
        digests[1], digests[2], own);
  }
}
