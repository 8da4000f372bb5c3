// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.ref.Reference;
import java.lang.ref.WeakReference;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.IntBuffer;
import java.nio.LongBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** Arrays whose size, place or life would let native code touch memory that is not the caller's. */
class SizesTest {
  static void refused(Executable... calls) {
    for (Executable call : calls) {
      assertThrows(IllegalArgumentException.class, call);
    }
  }

  /** Collects garbage until everything is cleaned up that was forgotten before. */
  static void collect() throws Exception {
    for (int i = 0; i < 2; ++i) { // what a collection finds is cleaned up in any order, but before what the next one finds
      CountDownLatch cleaned = new CountDownLatch(1);
      Manager.CLEANER.register(new Object(), cleaned::countDown);
      do {
        System.gc();
      } while (!cleaned.await(10, TimeUnit.MILLISECONDS));
    }
  }

  @Test
  void masksAreAsLongAsTheirOffsetsSay() throws Exception {
    try (Storage s = new Storage(StorageTest.config())) {
      Attention a = StorageTest.question(StorageTest.WHOLE);
      a.mask = Buffers.bytes(4);
      for (long offset : new long[] {1, 1L << 35, Long.MIN_VALUE, -8, -1}) { // unsigned in C: -8 and 32 bits are 24 bits
        a.maskOffsets = StorageTest.longs(offset);
        refused(() -> s.attend(a, null), () -> s.explain(a));
      }
      a.maskOffsets = StorageTest.longs(0);
      a.maskStarts = StorageTest.longs(33);
      refused(() -> s.attend(a, null));
      a.maskStarts = null;
      s.attend(a, null);
    }
  }

  @Test
  void stridesOfQueriesAndResultsStayInTheirBuffers() throws Exception {
    long[][] cases = {{-1, 0, 0, 0}, {0, -16, 0, 0}, {0, 0, -1, 0}, {0, 0, 0, -1}, {0, Long.MAX_VALUE, 0, 0}, {0, 1L << 62, 0, 0}, {0, 1L << 30, 0, 0},
        {1L << 61, 1L << 61, 0, 0}, {0, 0, 0, Long.MAX_VALUE}, {0, 0, 1L << 31, 1L << 31}, {0, 100, 0, 0}};
    try (Storage s = new Storage(StorageTest.config())) {
      Attention a = StorageTest.question(StorageTest.WHOLE);
      for (long[] strides : cases) {
        a.qTokenStride = strides[0];
        a.qHeadStride = strides[1];
        a.outTokenStride = strides[2];
        a.outHeadStride = strides[3];
        refused(() -> s.attend(a, null));
      }
    }
  }

  /** C ignores it, so two queries are 16 elements apart, not 8. */
  @Test
  void theHeadStrideOfOneHeadSaysNothing() throws Exception {
    try (Storage s = new Storage(new StorageConfig(1, 1, 1, 16).dtype(DType.FLOAT32))) {
      Attention a = new Attention();
      a.numQHeads = 1;
      a.q = Buffers.bytes(2 * 16 * 4);
      a.qOffsets = StorageTest.longs(0, 2);
      a.kvLens = StorageTest.longs(2);
      a.blockTables = Buffers.of(0);
      a.outHeadStride = 8;
      a.out = Buffers.bytes((8 + 16) * 4);
      refused(() -> s.attend(a, null));
      a.out = Buffers.bytes(2 * 16 * 4);
      s.attend(a, null);
    }
  }

  /** 2^40 queries of 2^20 elements have 2^65 bits, in 64 bits none. */
  @Test
  void sizesOfQueriesDoNotOverflow() throws Exception {
    int requests = 1024;
    try (Storage s = new Storage(new StorageConfig(1, 1, 1, 16).dtype(DType.FLOAT32))) {
      Attention a = new Attention();
      a.numQHeads = 65536;
      a.q = Buffers.bytes(0);
      a.out = Buffers.bytes(0);
      a.qOffsets = Buffers.longs(requests + 1);
      a.qStarts = Buffers.longs(requests);
      a.kvLens = Buffers.longs(requests);
      a.blockTables = Buffers.ints(requests);
      for (int r = 0; r < requests; ++r) {
        a.qOffsets.put(r + 1, (r + 1L) << 30);
        a.kvLens.put(r, 1);
      }
      refused(() -> s.attend(a, null));
    }
  }

  /** No layers are one layer, as in C: the arrays must have room for it. */
  @Test
  void noLayersAreOne() throws Exception {
    try (Storage s = new Storage(StorageTest.config())) {
      LongBuffer slots = StorageTest.slots();
      ByteBuffer none = Buffers.bytes(0);
      refused(() -> s.gather(none, none, DType.FLOAT32, slots, 0, 0, null), () -> s.store(none, none, DType.FLOAT32, slots, 0, 0, null),
          () -> s.gather(none, none, DType.FLOAT32, slots, 0, -1, null), () -> s.gather(none, none, DType.FLOAT32, slots, 0, Integer.MIN_VALUE, null));
      int bytes = 4 * StorageTest.TOKENS * StorageTest.HEADS * StorageTest.DIM;
      s.gather(Buffers.bytes(bytes), Buffers.bytes(bytes), DType.FLOAT32, slots, 0, 0, null);
    }
  }

  @Test
  void codesHaveRoomForTheirScales() {
    refused(() -> new Quantization(DType.INT8, -1, false, false, 0)); // 2^32 - 1 in C: one scale per row, for which there was no room
    Quantization rows = new Quantization(DType.INT8);
    refused(() -> rows.quantize(Buffers.bytes(16), -1, -4, Buffers.bytes(4), Buffers.bytes(4)),
        () -> rows.quantize(Buffers.bytes(16), 1, 4, Buffers.bytes(4), Buffers.bytes(0)), () -> rows.codeBytes(-1, 4), () -> rows.codeBytes(1 << 30, 1 << 30));
    assertEquals(8, new Quantization(DType.INT8, Integer.MAX_VALUE, false, false, 0).scaleBytes(2, 3));
  }

  /** 65,536 requests and heads need 2^32 bytes, in an int none. */
  @Test
  void blockMasksHaveRoomForAllHeads() throws Exception {
    int many = 65536;
    try (Storage s = new Storage(new StorageConfig(1, 1, many, 1).blockSize(1).dtype(DType.FLOAT32))) {
      Attention a = new Attention();
      a.numQHeads = many;
      a.q = Buffers.bytes(4 * many);
      a.qOffsets = Buffers.longs(many + 1).put(many, 1);
      a.kvLens = Buffers.longs(many).put(many - 1, 1);
      a.blockTables = Buffers.ints(many);
      refused(() -> s.selectBlocks(a, Buffers.bytes(4 * many), 1, 0, 0, null));
    }
  }

  @Test
  void numbersThatMultiplySizesAreChecked() throws Exception {
    ByteBuffer four = Buffers.bytes(16), none = Buffers.bytes(0);
    refused(() -> Attention.merge(four, four, 1, 0, DType.FLOAT32, four, null), () -> Attention.merge(four, four, 1, -1, DType.FLOAT32, four, null),
        () -> Attention.merge(none, none, -1, 4, DType.FLOAT32, four, null), () -> Attention.merge(none, none, 1 << 30, 4, DType.FLOAT32, four, null),
        () -> Attention.merge(four, null, 1, 4, DType.FLOAT32, four, null), () -> new Model(1, 1, 8, 8).window(4, 512),
        () -> new Model(1, 1, 8, 8).window(4, -1), () -> Rope.apply(four, DType.FLOAT32, -1, -4, 0, 0, false, four, null));
    try (Manager m = new Manager(4); Request r = m.allocate(ManagerTest.sequence(0, 20))) {
      refused(() -> m.exportTables(StorageTest.longs(r.id(), r.id()), 0, -1, Buffers.ints(5)));
      assertThrows(ArithmeticException.class, () -> m.compact(0, 1 << 29));
    }
  }

  /** Vector instructions of native code may rely on the alignment of elements. */
  @Test
  void elementsAreAligned() throws Exception {
    ByteBuffer odd = Buffers.bytes(5000).position(1).slice().order(ByteOrder.nativeOrder());
    int bytes = 4 * StorageTest.HEADS * StorageTest.DIM;
    ByteBuffer even = Buffers.bytes(bytes);
    IntBuffer oddInts = odd.slice(0, 16).order(ByteOrder.nativeOrder()).asIntBuffer();
    LongBuffer oddLongs = odd.slice(0, 16).order(ByteOrder.nativeOrder()).asLongBuffer();
    try (Manager m = new Manager(4); Storage s = new Storage(StorageTest.config())) {
      refused(() -> s.gather(odd.slice(0, bytes), even, DType.FLOAT32, StorageTest.longs(0), 0, 1, null),
          () -> s.store(even, odd.slice(0, bytes), DType.FLOAT32, StorageTest.longs(0), 0, 1, null), () -> m.allocate(oddInts, null),
          () -> s.zeroBlocks(oddInts, null), () -> s.gather(Buffers.bytes(2 * bytes), Buffers.bytes(2 * bytes), DType.FLOAT32, oddLongs, 0, 1, null));
    }
  }

  /** What says what to do must not change while it is done. */
  @Test
  void resultsAreApartFromIndices() throws Exception {
    ByteBuffer shared = Buffers.bytes(4 * StorageTest.HEADS * StorageTest.DIM), other = Buffers.bytes(shared.capacity());
    LongBuffer slot = shared.slice(8, 8).order(ByteOrder.nativeOrder()).asLongBuffer();
    try (Manager m = new Manager(4); Storage s = new Storage(StorageTest.config()); Request r = m.allocate(ManagerTest.sequence(0, 20))) {
      ByteBuffer slab = s.slab();
      IntBuffer inSlab = slab.slice(0, 4).order(ByteOrder.nativeOrder()).asIntBuffer();
      refused(() -> s.gather(shared, other, DType.FLOAT32, slot, 0, 1, null), () -> s.gather(other, shared, DType.FLOAT32, slot, 0, 1, null),
          () -> s.store(other, other, DType.FLOAT32, slab.slice(64, 8).order(ByteOrder.nativeOrder()).asLongBuffer(), 0, 1, null),
          () -> s.zeroBlocks(inSlab, null), () -> s.quantizeBlocks(inSlab, null));
      s.store(shared, other, DType.FLOAT32, slot, 0, 1, null); // only read
      Attention a = StorageTest.question(StorageTest.WHOLE);
      a.qOffsets = a.out.slice(0, 16).order(ByteOrder.nativeOrder()).asLongBuffer().put(0, 0).put(1, 1);
      refused(() -> s.attend(a, null));
      ByteBuffer tree = Buffers.bytes(8);
      refused(() -> Attention.treeMask(tree.asIntBuffer().put(0, -1).put(1, -1), tree.slice(0, 1)));
      ByteBuffer ids = Buffers.bytes(8);
      ids.putLong(0, r.id());
      refused(() -> m.exportTables(ids.asLongBuffer(), 0, -1, ids.asIntBuffer()));
      refused(() -> Rope.apply(shared, DType.FLOAT32, StorageTest.HEADS, StorageTest.DIM, 0, 0, false, other, slot));
      Reference.reachabilityFence(slab);
    }
  }

  @Test
  void slabsOfMoreThanTwoGibibytesHaveNoBuffer() throws Exception {
    try (Storage s = new Storage(new StorageConfig(1 << 16, 1, 1, 1024).flags(StorageConfig.NOT_ZEROED))) { // 4 GiB that nobody touches
      assertThrows(IllegalStateException.class, s::slab);
    }
  }

  /** Work on two blocks that takes some tenths of a second. */
  static void longWork(Storage s, Stream stream) throws KvCacheException {
    IntBuffer pairs = Buffers.ints(2 * 400);
    for (int i = 0; i < 400; ++i) {
      pairs.put(2 * i, 0).put(2 * i + 1, 1);
    }
    s.copyBlocks(pairs, stream);
  }

  static Storage large() throws KvCacheException {
    return new Storage(new StorageConfig(2, 1, 1, 2048).blockSize(1024).dtype(DType.FLOAT32));
  }

  /** Enqueues a gather into buffers that nobody else knows. */
  static WeakReference<ByteBuffer> gather(Storage s, Stream stream, StreamEvent end) throws KvCacheException {
    ByteBuffer k = Buffers.bytes(4 * 2048);
    s.gather(k, Buffers.bytes(4 * 2048), DType.FLOAT32, StorageTest.longs(0), 0, 1, stream);
    end.record(stream);
    return new WeakReference<>(k);
  }

  /** The buffer lives until {@code end}, and is gone when the user of the stream has left too. */
  static void livesUntil(StreamEvent end, WeakReference<ByteBuffer> buffer, Thread user) throws Exception {
    for (int i = 0; i < 10 && !end.done(); ++i) {
      System.gc();
      boolean gone = buffer.get() == null;
      assertTrue(end.done() || !gone, "a buffer is gone that a stream will write");
    }
    end.sync();
    user.join();
    collect();
    assertEquals(null, buffer.get(), "a buffer stays when all is done");
  }

  private WeakReference<ByteBuffer> forgotten(Storage s, StreamEvent end) throws KvCacheException {
    Stream stream = new Stream();
    longWork(s, stream);
    return gather(s, stream, end);
  }

  @Test
  void buffersOutliveAStreamThatIsForgotten() throws Exception {
    try (Storage s = large(); StreamEvent end = new StreamEvent()) {
      livesUntil(end, forgotten(s, end), new Thread());
    }
  }

  @Test
  void buffersOutliveAStreamThatIsClosedBesideItsUser() throws Exception {
    try (Storage s = large(); StreamEvent end = new StreamEvent()) {
      Stream stream = new Stream();
      longWork(s, stream);
      Thread user = new Thread(() -> assertThrowsNothing(stream::sync));
      user.start();
      while (user.getState() != Thread.State.RUNNABLE || stream.handle == null) {
        Thread.onSpinWait();
      }
      Thread.sleep(50); // it waits in native code
      longWork(s, stream);
      WeakReference<ByteBuffer> buffer = gather(s, stream, end);
      stream.close(); // the user leaves last, and ends the stream
      livesUntil(end, buffer, user);
    }
  }

  static void assertThrowsNothing(Executable call) {
    try {
      call.execute();
    } catch (Throwable error) {
      throw new AssertionError(error);
    }
  }

  private ByteBuffer slabOfAForgottenStorage() throws KvCacheException {
    return new Storage(StorageTest.config()).slab();
  }

  private LongBuffer bufferOfAForgottenStep() throws KvCacheException {
    return new Step(new Manager(4), new Step.Limits(2, 4, 2, 8, 0, 0, 0)).slots();
  }

  @Test
  void memoryOfForgottenObjectsLivesAsLongAsTheirBuffers() throws Exception {
    collect(); // what other tests have forgotten
    long alive = Handle.LIVE.get();
    ByteBuffer slab = slabOfAForgottenStorage().slice(0, 8); // a view keeps all
    collect();
    assertTrue(Handle.LIVE.get() > alive);
    slab.put(0, (byte) 1);
    slab = null;
    collect();
    assertEquals(alive, Handle.LIVE.get());
    LongBuffer slots = bufferOfAForgottenStep();
    collect();
    assertTrue(Handle.LIVE.get() > alive);
    slots.put(0, 1);
    slots = null;
    collect();
    assertEquals(alive, Handle.LIVE.get());
  }

  @Test
  void aClosedStepHasNoElements() throws Exception {
    try (Manager m = new Manager(4)) {
      Step step = new Step(m, new Step.Limits(2, 4, 2, 8, 0, 0, 0));
      assertEquals(8, step.row(0, 1).remaining());
      for (int[] wrong : new int[][] {{0, 2}, {0, -1}, {1, 0}, {-1, 0}, {1 << 30, 1}}) {
        String text = assertThrows(IndexOutOfBoundsException.class, () -> step.row(wrong[0], wrong[1])).getMessage();
        assertEquals("no row " + wrong[1] + " of group " + wrong[0] + "; the step has 1 groups of 2 rows", text);
      }
      LongBuffer slots = step.slots();
      IntBuffer tables = step.blockTables();
      step.close();
      assertThrows(IndexOutOfBoundsException.class, () -> slots.put(0, 1));
      assertThrows(IndexOutOfBoundsException.class, () -> tables.get(0));
      assertThrows(IllegalStateException.class, () -> step.row(0, 0));
      assertThrows(IllegalStateException.class, step::frees);
    }
  }

  interface Use {
    void run() throws Exception;
  }

  /** Until its object is closed. */
  private static Thread user(List<Throwable> failures, Use use) {
    Thread thread = new Thread(() -> {
      try {
        while (true) {
          use.run();
        }
      } catch (IllegalStateException | IndexOutOfBoundsException closed) {
        return;
      } catch (Throwable error) {
        failures.add(error);
      }
    });
    thread.start();
    return thread;
  }

  @Test
  void closingBesideCallsIsSafe() throws Exception {
    List<Throwable> failures = Collections.synchronizedList(new ArrayList<>());
    for (int round = 0; round < 30; ++round) {
      Manager m = new Manager(new Config().numBlocks(16).blockSize(4));
      Step step = new Step(m, new Step.Limits(1, 4, 1, 8, 1, 1, 8));
      Storage s = new Storage(StorageTest.config());
      Stream stream = new Stream();
      StreamEvent event = new StreamEvent();
      Attention now = StorageTest.question(StorageTest.WHOLE), later = StorageTest.question(StorageTest.WHOLE);
      List<Thread> users = List.of(user(failures, () -> step.run(0)), user(failures, () -> step.row(0, 0)), user(failures, m::check),
          user(failures, () -> s.attend(now, null)), user(failures, () -> s.attend(later, stream)), user(failures, stream::sync),
          user(failures, () -> event.record(stream)), user(failures, event::done));
      Thread.sleep(round % 3);
      AutoCloseable[] objects = {m, step, s, stream, event};
      for (int i = 0; i < objects.length; ++i) {
        objects[(i + round) % objects.length].close();
      }
      for (Thread thread : users) {
        thread.join();
      }
    }
    assertEquals(List.of(), failures);
  }
}
