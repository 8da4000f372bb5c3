// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.IntBuffer;
import java.nio.LongBuffer;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Drafts, verdicts and their moves, acceptance, bad input. */
class SpeculationTest {
  @Test
  void verdictsAndMovesOfTrees() throws Exception {
    Drafts drafts = new Drafts(new int[] {5, 6, 7, 1}, new int[] {-1, -1, 1, -1}, new long[] {0, 3, 4});
    Verdict verdict = drafts.verifyGreedy(Buffers.of(6, 0, 7, 9, 2, 0));
    assertArrayEquals(new int[] {6, 7, 9}, verdict.tokens(drafts, 0));
    assertArrayEquals(new int[] {2}, verdict.tokens(drafts, 1));
    LongBuffer starts = Buffers.longs(2).put(0, 3);
    List<Manager.TokenCopy> moves = drafts.moves(verdict, starts, Buffers.of(8, 9, 1, 2), 4, 0);
    assertEquals(List.of(new Manager.TokenCopy(0, 9, 8, 0, 3, 1), new Manager.TokenCopy(0, 9, 9, 1, 0, 1)), moves);
    assertEquals(Buffers.of(13, 9, 14, 1), drafts.states(verdict, Buffers.longs(2).put(0, 3).put(1, 1), Buffers.of(8, 9, 1, 2), 4,
        Buffers.of(10, 11, 12, 13, 14, 15)));
    assertThrows(KvCacheException.class, () -> drafts.states(verdict, starts, Buffers.of(8, 9, 1, 2), 4, Buffers.of(10, 11, 12, 13, 14, 15)));
    try (Storage s = new Storage(new StorageConfig(10, 1, 1, 8).blockSize(4))) {
      s.moveTokens(moves);
    }
    Acceptance acceptance = new Acceptance();
    acceptance.add(drafts, verdict);
    assertEquals(List.of(2L, 4L, 2L, 2L, 1L, 1L), List.of(acceptance.numDrafts(), acceptance.numNodes(), acceptance.numAccepted(), acceptance.tried(0),
        acceptance.accepted(0), acceptance.tried(1)));
    acceptance.halve();
    assertEquals(1, acceptance.bestLength(1, 1.1).nodes());
  }

  @Test
  void badInputIsRefused() throws Exception {
    Drafts good = new Drafts(new int[] {1, 2}, null, null);
    Probabilities zero = new Probabilities(4, Buffers.bytes(48), Buffers.bytes(24));
    assertThrows(KvCacheException.class, () -> new Drafts(new int[] {1, 2}, new int[] {-1, 1}, null));
    assertThrows(IllegalArgumentException.class, () -> new Drafts(new int[] {1, 2}, new int[] {-1}, null));
    assertThrows(IllegalArgumentException.class, () -> new Drafts(new int[] {1, 2}, null, new long[] {0, 1}));
    assertThrows(IllegalArgumentException.class, () -> good.verifyGreedy(IntBuffer.allocate(3)));
    assertThrows(IllegalArgumentException.class, () -> good.verifyGreedy(Buffers.ints(2)));
    assertTrue(assertThrows(KvCacheException.class, () -> good.verifySampling(zero)).getMessage().contains("sums to 0"));
    assertThrows(IllegalArgumentException.class, () -> good.verifySampling(new Probabilities(4, Buffers.bytes(44), Buffers.bytes(24))));
    assertThrows(KvCacheException.class, () -> good.verifyTypical(zero, 2, 1));
  }
}
