// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.IntBuffer;
import java.nio.LongBuffer;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;

/** Drafts, verdicts and their moves, the target's distribution, n-grams, acceptance, bad input. */
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
  void samplesHaveTheDistributionOfTheTarget() throws Exception {
    int n = 200_000;
    float[] p = {0.1f, 0.2f, 0.3f, 0.4f}, q = {0.4f, 0.1f, 0.4f, 0.1f};
    Random random = new Random(1);
    int[] tokens = new int[n];
    long[] offsets = new long[n + 1];
    ByteBuffer rows = Buffers.bytes(32 * n), uniforms = Buffers.bytes(16 * n), drawn = Buffers.bytes(16);
    drawn.asFloatBuffer().put(q);
    for (int i = 0; i < n; ++i) {
      double u = random.nextDouble();
      for (; tokens[i] < 3 && u >= q[tokens[i]]; ++tokens[i]) {
        u -= q[tokens[i]];
      }
      offsets[i + 1] = i + 1;
      for (int j = 0; j < 8; ++j) {
        rows.putFloat(p[j % 4]);
      }
      uniforms.putDouble(random.nextDouble()).putDouble(random.nextDouble());
    }
    Drafts drafts = new Drafts(tokens, null, offsets);
    Probabilities from = new Probabilities(4, rows.flip(), uniforms.flip());
    from.q = drawn;
    from.numQRows = 1;
    from.qRows = Buffers.longs(n);
    Verdict verdict = drafts.verifySampling(from);
    double[] counts = new double[4];
    for (int i = 0; i < n; ++i) {
      ++counts[verdict.tokens(drafts, i)[0]];
    }
    double chi = 0;
    for (int i = 0; i < 4; ++i) {
      chi += Math.pow(counts[i] - n * (double) p[i], 2) / (n * (double) p[i]);
    }
    assertTrue(chi < 25, () -> "chi-square");
    Verdict typical = drafts.verifyTypical(from, 0.25, 5);
    assertEquals(p[tokens[0]] > 0.25 ? 1 : 0, typical.numAccepted().get(0));
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
