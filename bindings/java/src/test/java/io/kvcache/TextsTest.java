// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import static io.kvcache.ManagerTest.sequence;
import static io.kvcache.ManagerTest.small;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.nio.ByteBuffer;
import java.nio.IntBuffer;
import java.nio.LongBuffer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** What a user reads: texts of refusals and of objects. */
class TextsTest {
  private static void negative(String name, Executable call) {
    assertEquals(name + " is -1; it must not be negative", assertThrows(IllegalArgumentException.class, call).getMessage());
  }

  @Test
  void negativeNumbersOfRequestsAreRefusedAsWritten() throws Exception {
    try (Manager m = small(8); Step s = new Step(m, new Step.Limits(1, 1, 1, 1, 1, 1, 1))) {
      try (Request gone = m.allocate(sequence(0, 8))) {
        gone.commit(8);
      }
      Request r = m.allocate(sequence(100, 8));
      long before = m.digest();
      IntBuffer ints = Buffers.ints(1);
      negative("maxBlocks", () -> m.evict(-1)); // evicted all
      negative("capacity", () -> r.reserve(-1));
      negative("committed", () -> r.commit(-1));
      negative("numTokens", () -> r.truncate(-1));
      negative("firstToken", () -> r.slots(0, -1, Buffers.longs(1)));
      negative("group", () -> r.slots(-1, 0, Buffers.longs(1)));
      negative("group", () -> r.blockTable(-1));
      negative("group", () -> m.acquireBlocks(-1, ints));
      negative("group", () -> m.acquirePrefix(0, -1, ints, ints));
      negative("group", () -> m.publishBlocks(0, -1, ints, ints));
      negative("pool", () -> m.compact(-1, 1));
      negative("maxMoves", () -> m.compact(0, -1));
      negative("pool", () -> m.poolInfo(-1));
      negative("group", () -> m.lostReuse(-1));
      negative("stepId", () -> m.retireStep(-1));
      negative("stepId", () -> m.failStep(-1));
      negative("cursor", () -> m.events(-1));
      negative("retiredStep", () -> s.run(-1));
      negative("requests", () -> s.counts(-1, 0, 0));
      negative("frees", () -> s.counts(0, -1, 0));
      negative("preempts", () -> s.counts(0, 0, -1, 0, 0));
      negative("truncates", () -> s.counts(0, 0, 0, -1, 0));
      negative("admissions", () -> s.counts(0, 0, -1));
      assertEquals(before, m.digest());
    }
  }

  @Test
  void negativeNumbersOfConfigsAreRefusedAsWritten() {
    negative("numBlocks", () -> new Config().numBlocks(8, -1));
    negative("blockSize", () -> new Config().blockSize(-1));
    negative("vocabSize", () -> new Config().vocabSize(-1));
    negative("maxNodes", () -> new Config().maxNodes(-1));
    negative("maxRequests", () -> new Config().maxRequests(-1));
    negative("maxRequestTokens", () -> new Config().maxRequestTokens(-1));
    negative("eventCapacity", () -> new Config().eventCapacity(-1));
    negative("watermarkBlocks", () -> new Config().watermarkBlocks(-1));
    negative("windowTokens", () -> new Config.Group(-1, 0, 0, 0));
    negative("pool", () -> new Config.Group(0, 0, 0, -1));
    negative("slots", () -> new RequestOptions().slots(-1));
    negative("lookahead", () -> new RequestOptions().lookahead(-1));
    negative("maxCachedTokens", () -> new RequestOptions().maxCachedTokens(-1));
    negative("externalTokens", () -> new RequestOptions().externalTokens(-1));
    negative("dropTailBlocks", () -> new RequestOptions().dropTailBlocks(-1));
    negative("numTokens", () -> new RequestOptions.ExtraKey(0, -1, new byte[32]));
    negative("maxRows", () -> new Step.Limits(1, 1, -1, 1, 1, 1, 1));
    negative("numLayers", () -> new StorageConfig(1, -1, 1, 1));
    negative("numThreads", () -> new StorageConfig(1, 1, 1, 1).numThreads(-1));
    negative("headDim", () -> new Model(1, 1, -1, 1));
    negative("tokens", () -> new Model(1, 1, 8, 1).estimate(new Model.Query(DType.FLOAT16, -1)));
    negative("layer", () -> new Model(1, 1, 8, 1).ropeFrequencies(-1, 1));
  }

  @Test
  void negativeNumbersOfStoragesAreRefusedAsWritten() throws Exception {
    ByteBuffer rows = Buffers.bytes(16), none = Buffers.bytes(0);
    LongBuffer slots = Buffers.longs(1);
    try (Storage s = new Storage(new StorageConfig(1, 1, 1, 4).dtype(DType.FLOAT32))) {
      negative("firstLayer", () -> s.store(rows, rows, DType.FLOAT32, slots, -1, 1, null));
      negative("firstElement", () -> s.store(rows, rows, DType.FLOAT32, slots, 0, 1, new Rope.Rotation(null, null, 0, -1, false), null));
      negative("pageBytes", () -> s.swapOut(Buffers.ints(0), none, -1, null));
      negative("pageBytes", () -> s.swapIn(Buffers.ints(0), none, -1, null));
      negative("layer", () -> s.keyBounds(-1, Buffers.ints(0), Buffers.bytes(16), null));
      negative("topK", () -> s.selectBlocks(new Attention(), Buffers.bytes(16), -1, 0, 0, null));
      Attention a = new Attention();
      a.window = -1;
      negative("window", () -> s.explain(a));
    }
  }

  @Test
  void objectsSayWhatTheyAre() throws Exception {
    Manager m = small(8);
    Request r = m.allocate(sequence(0, 6), new RequestOptions().slots(4));
    r.commit(4);
    assertEquals("Manager[8 blocks of 4 tokens: 7 free, 0 cached; 1 admitted and 0 waiting requests]", m.toString());
    String name = "Request[id " + Long.toUnsignedString(r.id());
    assertEquals(name + ", 6 tokens, 4 committed, 1 blocks]", r.toString());
    r.preempt();
    assertEquals(name + ", 6 tokens, 0 committed, waiting]", r.toString());
    r.free();
    assertEquals(name + ", freed]", r.toString());
    m.close();
    assertEquals(name + ", manager closed]", r.toString());
    assertEquals("Manager[closed]", m.toString());
    Storage s = new Storage(new StorageConfig(2, 3, 1, 4).dtype(DType.FLOAT16).blockSize(4));
    assertEquals("Storage[2 blocks of 4 tokens, 3 layers, 1 heads of 4 elements, FLOAT16, " + s.slab().capacity() + " bytes]", s.toString());
    s.close();
    assertEquals("Storage[closed]", s.toString());
  }

  @Test
  void statusesHaveTheNumbersOfC() {
    for (Status status : Status.values()) {
      assertEquals(status, Status.of(status.code));
    }
    assertEquals(15, Status.OVER_QUOTA.code);
    assertEquals(16, Status.FILLING.code);
    assertEquals(17, Status.NEVER_FITS.code);
    assertThrows(IllegalArgumentException.class, () -> Status.of(18));
  }
}
