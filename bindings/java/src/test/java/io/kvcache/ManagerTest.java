// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvcache.Config.Group;
import io.kvcache.RequestOptions.ExtraKey;
import java.nio.ByteBuffer;
import java.nio.IntBuffer;
import java.nio.LongBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

class ManagerTest {
  /** How often tests repeat, times what the gate does: scripts/deep sets it to 5. */
  static final int ROUNDS = Math.max(1, Integer.parseInt(System.getenv().getOrDefault("KVC_TEST_ROUNDS", "1")));

  static int[] sequence(int first, int count) {
    return IntStream.range(first, first + count).toArray();
  }

  static IntBuffer direct(int... values) {
    return Buffers.ints(values.length).put(values).flip();
  }

  static Manager small(long blocks) throws KvCacheException {
    return new Manager(new Config().numBlocks(blocks).blockSize(4));
  }

  @Test
  void aFreedPromptIsFoundAgain() throws Exception {
    try (Manager m = new Manager(64)) {
      try (Request r = m.allocate(sequence(1000, 40))) {
        assertEquals(0, r.cached());
        assertArrayEquals(new int[] {0, 1, 2}, r.blockTable(0));
        r.commit(40);
        r.append(7);
        Request.Info info = r.info();
        assertArrayEquals(new long[] {41, 40, 41, 3}, new long[] {info.numTokens(), info.numCommitted(), info.capacity(), info.numBlocks()});
        assertTrue(info.admitted());
        LongBuffer slots = Buffers.longs(2);
        r.slots(0, 15, slots);
        assertEquals(16, slots.get(1));
      }
      try (Request again = m.allocate(sequence(1000, 40))) {
        assertEquals(32, again.cached());
      }
      assertEquals(0, m.stats().usage());
      assertEquals(2, m.stats().blockHits());
      m.check();
    }
  }

  @Test
  void aBatchIsAdmittedWholeOrNotAtAll() throws Exception {
    try (Manager m = small(3); Request a = m.create(sequence(0, 4), null); Request b = m.create(sequence(100, 5), null);
        Request large = m.create(sequence(200, 8), null); Request never = m.create(sequence(300, 20), null)) {
      IntBuffer statuses = direct(9, 9, 9);
      KvCacheException refused = assertThrows(KvCacheException.class, () -> m.admitBatch(ids(a, large, b), statuses));
      assertEquals(Status.NO_SPACE.code, refused.status());
      assertTrue(refused.getMessage().contains("requests[2]: "), refused.getMessage());
      assertEquals(direct(Status.SKIPPED.code, Status.SKIPPED.code, Status.NO_SPACE.code), statuses);
      assertThrows(KvCacheException.class, () -> m.admitBatch(ids(never, a, b), statuses));
      assertEquals(direct(Status.NEVER_FITS.code, Status.SKIPPED.code, Status.SKIPPED.code), statuses);
      assertThrows(IllegalArgumentException.class, () -> m.admitBatch(ids(a, b), statuses));
      assertArrayEquals(new long[2], m.admitBatch(ids(a, b), null));
      assertArrayEquals(new long[0], m.admitBatch(ids(), null));
    }
  }

  private static LongBuffer ids(Request... requests) {
    LongBuffer ids = Buffers.longs(requests.length);
    for (Request request : requests) {
      ids.put(request.id());
    }
    return ids.flip();
  }

  @Test
  void aBudgetSizesAManager() throws Exception {
    Model llama = Model.find("llama-3.1-8b");
    Model.Query budget = Model.Query.ofBudget(DType.BFLOAT16, 8L << 30);
    try (Manager m = new Manager(new Config().memory(llama, budget))) {
      assertEquals(4096, m.stats().blocksTotal());
    }
    try (Manager m = new Manager(new Config().blockSize(32).memory(llama, budget))) {
      assertEquals(2048, m.stats().blocksTotal());
    }
    Model gemma = Model.find("gemma-3-4b");
    try (Manager m = new Manager(new Config().memory(gemma, budget))) {
      Model.Estimate estimate = gemma.estimate(budget);
      assertEquals(estimate.poolBlocks() + estimate.windowPoolBlocks(), m.stats().blocksTotal());
    }
    try (Manager m = new Manager(new Config().memory(llama, Model.Query.ofFraction(DType.BFLOAT16, 0.25f, "cpu")))) {
      assertTrue(m.stats().blocksTotal() > 0);
    }
    KvCacheException small =
        assertThrows(KvCacheException.class, () -> new Manager(new Config().memory(llama, Model.Query.ofBudget(DType.BFLOAT16, 5))));
    assertTrue(small.getMessage().contains("the budget is 5 bytes"), small.getMessage());
    assertThrows(KvCacheException.class, () -> new Manager(new Config().numBlocks(8).memory(llama, budget)));
  }

  @Test
  void failuresCarryStatusAndTextAndChangeNothing() throws Exception {
    try (Manager m = new Manager(new Config().numBlocks(4).vocabSize(100))) {
      Request r = m.allocate(sequence(0, 48));
      long before = m.digest();
      NoSpaceException none = assertThrows(NoSpaceException.class, () -> m.allocate(sequence(50, 30)));
      assertFalse(none.again());
      assertFalse(none.neverFits());
      NoSpaceException never = assertThrows(NoSpaceException.class, () -> m.allocate(sequence(0, 65)));
      assertTrue(never.neverFits());
      assertFalse(never.overQuota());
      KvCacheException bad = assertThrows(KvCacheException.class, () -> m.allocate(100));
      assertTrue(bad.getMessage().contains("100"), bad.getMessage());
      assertEquals(before, m.digest());
      r.free();
      assertThrows(KvCacheException.class, r::free);
      r.close();
    }
    assertThrows(KvCacheException.class, () -> new Manager(0));
  }

  @Test
  void onlyDirectBuffersInNativeOrderAreTaken() throws Exception {
    try (Manager m = small(16)) {
      for (IntBuffer wrong : List.of(IntBuffer.wrap(sequence(0, 4)), ByteBuffer.allocateDirect(16).asIntBuffer())) {
        assertThrows(IllegalArgumentException.class, () -> m.allocate(wrong, null));
      }
      IntBuffer part = direct(9, 9, 0, 1, 2, 3, 4, 9);
      m.allocate(part.position(2).limit(7), null).commit(5);
      assertEquals(4, m.probe(0, direct(sequence(0, 5))));
      LongBuffer readOnly = Buffers.longs(1).asReadOnlyBuffer();
      Request r = m.allocate(1);
      assertThrows(IllegalArgumentException.class, () -> r.slots(0, 0, readOnly));
    }
  }

  @Test
  void blocksToClearAndToMoveAreTold() throws Exception {
    try (Manager m = new Manager(new Config().numBlocks(8).blockSize(4).zeroAlways())) {
      Request low = m.allocate(sequence(0, 8)), high = m.allocate(sequence(50, 8));
      assertEquals(4, m.takePending().zeroBlocks().size());
      low.close();
      List<int[]> moves = m.compact(0, 8);
      assertEquals(2, moves.size());
      int[] table = high.blockTable(0);
      for (int[] move : moves) {
        assertEquals(move[1], table[move[0] - 2]);
      }
    }
  }

  @Test
  void poolsHaveRoomOfTheirOwn() throws Exception {
    assertThrows(IllegalArgumentException.class, () -> new Manager(new Config().numBlocks(4).maxBlocks(8, 8)));
    try (Manager m = new Manager(new Config().numBlocks(4, 2).blockSize(4).groups(new Group(), new Group(0, 0, 0, 1)).maxBlocks(4, 6))) {
      m.resize(1, 6);
      assertEquals(6, m.poolInfo(1).numBlocks());
    }
  }

  @Test
  void memoryOfUnusedBlocksGoesBack() throws Exception {
    try (Storage s = new Storage(new StorageConfig(64, 1, 2, 128).dtype(DType.FLOAT32).blockSize(16))) {
      assertTrue(s.discardBlocks(0, 64) >= 62L * 2 * 16 * 2 * 128 * 4);
      assertThrows(KvCacheException.class, () -> s.discardBlocks(60, 5));
    }
  }

  @Test
  void aRebuildCarriesPrefixesAndTheirBytes() throws Exception {
    StorageConfig shape = new StorageConfig(16, 1, 1, 2).dtype(DType.FLOAT32);
    try (Manager m = small(16); Storage from = new Storage(shape.blockSize(4)); Storage to = new Storage(shape.blockSize(3))) {
      long tenant = m.openNamespace(null, null, new byte[] {65});
      Request request = m.allocate(new int[] {1, 2, 3, 4, 5, 6, 7, 8, 9}, new RequestOptions().namespace(tenant));
      request.commit(9);
      assertThrows(KvCacheException.class, () -> m.rebuild(new Config().numBlocks(16).blockSize(3)));
      request.free();
      Manager.Rebuilt made = m.rebuild(new Config().numBlocks(16).blockSize(3));
      try (Manager rebuilt = made.manager()) {
        assertEquals(List.of(new Manager.TokenCopy(0, 0, 0, 0, 0, 3), new Manager.TokenCopy(0, 0, 1, 3, 0, 1), new Manager.TokenCopy(0, 1, 1, 0, 1, 2)),
            made.copies());
        assertEquals(6, rebuilt.probe(made.namespaces().get(tenant), Scenario.sequence(1, 9)));
      }
      ByteBuffer k = Buffers.bytes(64), v = Buffers.bytes(64), k2 = Buffers.bytes(48), v2 = Buffers.bytes(48);
      for (int i = 0; i < 16; ++i) {
        k.putFloat(4 * i, i);
        v.putFloat(4 * i, -i);
      }
      LongBuffer slots = Buffers.longs(8).put(new long[] {0, 1, 2, 3, 4, 5, 6, 7}).flip();
      from.store(k, v, DType.FLOAT32, slots, 0, 1, null);
      to.copyTokens(from, made.copies());
      to.gather(k2, v2, DType.FLOAT32, slots.slice(0, 6), 0, 1, null);
      assertEquals(k.slice(0, 48), k2);
      assertEquals(v.slice(0, 48), v2);
    }
  }

  @Test
  void namespacesKeysAndPins() throws Exception {
    try (Manager m = small(16)) {
      long a = m.openNamespace("a".getBytes(), null, null), b = m.openNamespace("a".getBytes(), null, new byte[0]);
      assertTrue(a != b);
      ExtraKey key = new ExtraKey(0, 4, new byte[32]);
      IntBuffer tokens = direct(sequence(0, 9));
      try (Request r = m.allocate(tokens, new RequestOptions().namespace(a).keys(key).lookahead(2))) {
        r.commit(9);
        assertEquals(11, r.info().capacity());
      }
      assertEquals(8, m.probe(a, tokens, key));
      assertEquals(0, m.probe(a, tokens));
      assertEquals(0, m.probe(b, tokens, key));
      long pin = m.pin(a, tokens, key);
      assertEquals(0, m.evict(9));
      assertEquals(List.of(pin), m.pins());
      assertEquals(List.of(a, b), m.namespaces());
      m.resetNamespace(0);
      assertEquals(8, m.probe(a, tokens, key));
      assertTrue(m.probeInfo(a, tokens, key).fits());
      try (Request waiting = m.create(direct(sequence(0, 70)), new RequestOptions().slots(4))) {
        assertTrue(m.probeRequest(waiting.id()).fits());
        assertTrue(!m.probeInfo(0, direct(sequence(0, 70))).fits());
      }
      m.openCurve(a, new Manager.CurveConfig(1, 0, 100, 0));
      m.allocate(tokens, new RequestOptions().namespace(a).keys(key)).close();
      assertEquals(2, m.curve(a).queries());
      assertEquals(2, m.hitRates(a, 1, 2).length);
      m.closeCurve(a);
      m.unpin(pin);
      assertEquals(2, m.drop(a, tokens, key));
      m.resetNamespace(a);
      m.closeNamespace(b);
      assertThrows(KvCacheException.class, () -> m.closeNamespace(b));
    }
  }

  @Test
  void externalHoldsEventsGroupsAndPools() throws Exception {
    try (Manager m = new Manager(new Config().numBlocks(16, 8).blockSize(4).eventCapacity(16).groups(new Group(), new Group(8, 0, 0, 1)))) {
      IntBuffer blocks = Buffers.ints(2), held = Buffers.ints(2);
      m.acquireBlocks(0, blocks);
      m.publishBlocks(0, 0, direct(sequence(0, 8)), blocks);
      assertEquals(2, m.acquirePrefix(0, 0, direct(sequence(0, 8)), held));
      assertEquals(blocks, held);
      m.releaseBlocks(blocks);
      m.releaseBlocks(held);
      Event.Batch read = m.events(0);
      assertEquals(2, read.next());
      assertArrayEquals(read.events().get(0).digest(), read.events().get(1).parentDigest());
      assertArrayEquals(sequence(4, 4), read.events().get(1).tokens());
      assertEquals(Event.STORED, read.events().get(0).kind());
      assertEquals(0, m.events(read.next()).events().size());
      long[] eventCursor = new long[1];
      Event.Batch listed = m.prefixes(0, eventCursor);
      assertEquals(0, listed.next());
      assertEquals(2, eventCursor[0]);
      assertEquals(2, listed.events().size());
      assertArrayEquals(read.events().get(1).digest(), listed.events().get(1).digest());
      assertEquals(0, m.stats().eventsDropped());
      assertEquals(2, m.evict(0, 9));
      try (Request r = m.allocate(sequence(0, 20))) {
        r.commit(20);
        assertEquals(-1, r.blockTable(1)[0]);
        assertTrue(r.blockTable(1)[4] >= 16);
      }
    }
  }

  @Test
  void closingWhileOthersCallNeverPullsMemoryAway() throws Exception {
    AtomicReference<Throwable> failure = new AtomicReference<>();
    for (int round = 0; round < 30; ++round) {
      Manager m = new Manager(256);
      Step step = new Step(m, new Step.Limits(1, 1, 1, 1, 0, 0, 0));
      List<Thread> threads = new ArrayList<>();
      for (int t = 0; t < 4; ++t) {
        threads.add(new Thread(() -> {
          IntBuffer tokens = direct(sequence(0, 2000));
          try {
            while (true) {
              try {
                m.allocate(tokens, null).free();
              } catch (NoSpaceException full) {
                Thread.onSpinWait();
              }
            }
          } catch (IllegalStateException closed) {
            // As it should end.
          } catch (Throwable other) {
            failure.set(other);
          }
        }));
      }
      threads.forEach(Thread::start);
      Thread.sleep(2);
      m.close();
      m.close();
      for (Thread thread : threads) {
        thread.join();
      }
      step.requests().put(0, 1); // Still there: the step keeps the manager.
      step.close();
    }
    assertEquals(null, failure.get());
  }

  @Test
  void manyThreadsShareOneManager() throws Exception {
    try (Manager m = small(512)) {
      AtomicReference<Throwable> failure = new AtomicReference<>();
      List<Thread> threads = IntStream.range(0, 4).mapToObj(t -> new Thread(() -> {
        try {
          for (int i = 0; i < 500; ++i) {
            try (Request r = m.allocate(sequence((t * i) % 7, 30))) {
              r.commit(30);
            }
          }
        } catch (Throwable other) {
          failure.set(other);
        }
      })).toList();
      threads.forEach(Thread::start);
      for (Thread thread : threads) {
        thread.join();
      }
      assertEquals(null, failure.get());
      assertEquals(2000, m.stats().admissions());
      m.check();
    }
  }
}
