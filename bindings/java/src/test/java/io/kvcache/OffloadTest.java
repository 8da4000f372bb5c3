// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import static io.kvcache.ManagerTest.sequence;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.LongBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;

/** What was computed comes back from tiers, and from checkpoints. */
class OffloadTest {
  private static final PageConfig PAGES = new PageConfig("a model".getBytes(), "of May".getBytes());
  private static final int FULL = 20 * 2 * 8 * 4; // bytes of 20 tokens in a layer

  /** A manager, its storage, and an offload to a tier. */
  private static final class Life implements AutoCloseable {
    final Manager m = new Manager(new Config().numBlocks(16).blockSize(4).eventCapacity(256));
    final Storage s = storage(16);
    final Tier tier;
    final Offload offload;

    Life(String url, int policy) throws Exception {
      Storage.PageInfo info = s.pageInfo(PAGES);
      tier = new Tier(url, info.pageBytes(), info.fingerprint());
      offload = new Offload(m, List.of(s), List.of(tier), PAGES, new OffloadOptions().policy(policy));
    }

    void until(Callable<Boolean> done, Stream stream) throws Exception {
      for (long end = System.nanoTime() + 60_000_000_000L;;) {
        offload.poll(System.nanoTime(), stream);
        if (done.call()) {
          return;
        }
        assertTrue(System.nanoTime() < end);
        offload.await(10);
      }
    }

    void settle() throws Exception {
      until(() -> offload.stats().waitingBlocks() == 0 && offload.stats().busyPages() == 0, null);
    }

    Offload.Info load(Request request, Stream stream) throws Exception {
      offload.lookup(request);
      until(() -> offload.query(request).state() == Offload.State.READY, stream);
      return offload.query(request);
    }

    @Override
    public void close() {
      offload.close();
      tier.close();
      s.close();
      m.close();
    }
  }

  private static Storage storage(int blocks) throws KvCacheException {
    return new Storage(new StorageConfig(blocks, 2, 2, 8).blockSize(4).dtype(DType.FLOAT32));
  }

  /** Computes a prompt, publishes it, and returns what was stored for its first 20 tokens in the first layer. */
  private static ByteBuffer compute(Manager m, Storage s, int[] tokens) throws KvCacheException {
    try (Request request = m.allocate(tokens)) {
      ByteBuffer rows = Buffers.bytes(2 * tokens.length * 2 * 8 * 4);
      for (int i = 0; i < rows.capacity() / 4; ++i) {
        rows.putFloat(4 * i, tokens[0] + i / 8f);
      }
      s.store(rows, rows, DType.FLOAT32, slots(request, tokens.length), 0, 2, null);
      request.commit(tokens.length);
      return rows.slice(0, FULL);
    }
  }

  private static LongBuffer slots(Request request, int tokens) throws KvCacheException {
    LongBuffer slots = Buffers.longs(tokens);
    request.slots(0, 0, slots);
    return slots;
  }

  private static ByteBuffer stored(Storage s, Request request) throws KvCacheException {
    ByteBuffer k = Buffers.bytes(FULL), v = Buffers.bytes(FULL);
    s.gather(k, v, DType.FLOAT32, slots(request, 20), 0, 1, null);
    return k;
  }

  @Test
  void whatWasEvictedComesBack() throws Exception {
    int[] prompt = sequence(100, 21);
    for (boolean streams : new boolean[] {false, true}) {
      try (Life life = new Life("memory:?bytes=1MiB", OffloadOptions.WRITE_THROUGH); Stream stream = streams ? new Stream() : null) {
        ByteBuffer rows = compute(life.m, life.s, prompt);
        life.settle();
        life.m.resetAll();
        life.s.slab().put(new byte[life.s.slab().capacity()]);
        try (Request request = life.m.create(prompt, null)) {
          assertEquals(new Offload.Info(Offload.State.READY, Offload.Reason.LOADED, 0, 20, 20), life.load(request, stream));
          assertEquals(20, request.admit());
          if (stream != null) {
            stream.sync();
          }
          assertEquals(rows, stored(life.s, request));
        }
        assertEquals(20, life.offload.stats().loadedTokens());
        assertEquals(5, life.offload.tierStats(0).storedPages());
        assertEquals(5, life.offload.tierStats(0).loadedPages());
      }
    }
  }

  @Test
  void anotherLifeHasWhatTheFirstOneComputed(@TempDir Path folder) throws Exception {
    String url = "slab:" + folder + "/slab?bytes=1MiB";
    int[] prompt = sequence(7, 21);
    ByteBuffer rows;
    try (Life first = new Life(url, OffloadOptions.WRITE_THROUGH)) {
      rows = compute(first.m, first.s, prompt);
      first.settle();
    }
    try (Life second = new Life(url, 0); Request request = second.m.create(prompt, null)) {
      assertEquals(20, second.load(request, null).numLoaded());
      assertEquals(20, request.admit());
      assertEquals(rows, stored(second.s, request));
    }
    Tier.FileInfo info = Tier.fileInfo(folder.resolve("slab"), true);
    assertTrue(info.slab());
    assertEquals(List.of(5L, 0L), List.of(info.numPages(), info.badPages()));
    try (Storage s = storage(1)) {
      assertArrayEquals(s.pageInfo(PAGES).fingerprint(), info.fingerprint());
    }
    assertArrayEquals(new byte[32], info.key());
    assertEquals(Native.KVC_ERROR_NOT_FOUND, assertThrows(KvCacheException.class, () -> Tier.fileInfo(folder.resolve("no"), false)).status());
  }

  @Test
  void aPreemptedRequestIsStoredAndComesBack() throws Exception {
    try (Life life = new Life("memory:?bytes=1MiB", 0); Request request = life.m.allocate(sequence(0, 21))) {
      request.commit(21);
      assertEquals(5, life.offload.storeRequest(request));
      life.settle();
      request.preempt();
      life.m.resetAll();
      assertEquals(20, life.load(request, null).numLoaded());
      life.offload.cancel(request);
      assertEquals(Offload.State.NONE, life.offload.query(request).state());
    }
  }

  @Test
  void aTierIsItsOffloadsUntilThatIsClosed() throws Exception {
    for (boolean hadJobs : new boolean[] {false, true}) { // with and without a thread that polls
      try (Life life = new Life("memory:?bytes=1MiB", OffloadOptions.WRITE_THROUGH)) {
        if (hadJobs) {
          life.offload.close();
          life.tier.exists(Buffers.bytes(32), null);
        }
        Offload own = hadJobs ? new Offload(life.m, List.of(life.s), List.of(life.tier), PAGES, new OffloadOptions().policy(1)) : life.offload;
        for (Executable call : List.<Executable>of(() -> life.tier.exists(Buffers.bytes(32), null), life.tier::drain, life.tier::runOne,
            () -> new Offload(life.m, List.of(life.s), List.of(life.tier), PAGES, null))) {
          KvCacheException error = assertThrows(KvCacheException.class, call);
          assertEquals(Native.KVC_ERROR_BUSY, error.status());
          assertTrue(error.getMessage().contains("is an Offload's"), error.getMessage());
        }
        compute(life.m, life.s, sequence(1, 21));
        for (long end = System.nanoTime() + 60_000_000_000L; own.tierStats(0).storedPages() < 5; own.await(1)) {
          own.poll();
          assertTrue(System.nanoTime() < end);
        }
        assertEquals(5, life.tier.stats().pages());
        own.close();
        own.close();
        assertEquals(0, life.tier.exists(Buffers.bytes(32), null).numOk());
        assertThrows(IllegalStateException.class, own::poll);
        assertEquals("Offload[closed]", own.toString());
      }
    }
  }

  @Test
  void aTierWithJobsIsNotLent() throws Exception {
    try (Life life = new Life("memory:?bytes=1MiB&threads=0", 0)) {
      life.offload.close();
      Tier.Job job = life.tier.submitExists(Buffers.bytes(32), null);
      Executable make = () -> new Offload(life.m, List.of(life.s), List.of(life.tier), PAGES, null).close();
      assertTrue(assertThrows(KvCacheException.class, make).getMessage().contains("jobs of its own"));
      life.tier.await(job);
      make.execute();
    } catch (Throwable error) {
      throw new AssertionError(error);
    }
  }

  @Test
  void anyOrderOfClosingIsSafe() throws Exception {
    SizesTest.collect();
    long alive = Handle.LIVE.get();
    for (int order = 0; order < 24; ++order) {
      Life life = new Life("memory:?bytes=1MiB", OffloadOptions.WRITE_THROUGH);
      compute(life.m, life.s, sequence(order, 40));
      life.offload.poll(); // stores are on the way
      List<AutoCloseable> all = new ArrayList<>(List.of(life.m, life.s, life.tier, life.offload));
      for (int n = 4, left = order; n > 0; left /= n, --n) {
        all.remove(left % n).close();
      }
      assertThrows(IllegalStateException.class, life.offload::poll);
    }
    Life forgotten = new Life("memory:?bytes=1MiB", OffloadOptions.WRITE_THROUGH);
    forgotten.offload.poll();
    forgotten = null;
    for (int turn = 0; turn < 100 && Handle.LIVE.get() != alive; ++turn) {
      SizesTest.collect();
      Thread.sleep(10);
    }
    assertEquals(alive, Handle.LIVE.get());
  }

  @Test
  void anyThreadMayCallItWhileAnotherOneClosesIt() throws Exception {
    for (int round = 0; round < 10; ++round) {
      Life life = new Life("memory:?bytes=1MiB", OffloadOptions.WRITE_THROUGH);
      ConcurrentLinkedQueue<String> ends = new ConcurrentLinkedQueue<>();
      List<Thread> threads = new ArrayList<>();
      for (Executable call : List.<Executable>of(life.offload::poll, () -> life.offload.await(1), life.offload::stats)) {
        threads.add(new Thread(() -> {
          try {
            while (true) {
              call.execute();
            }
          } catch (Throwable error) {
            ends.add(error.getMessage());
          }
        }));
      }
      threads.forEach(Thread::start);
      compute(life.m, life.s, sequence(0, 40));
      life.close();
      for (Thread thread : threads) {
        thread.join();
      }
      assertEquals(Collections.nCopies(3, "the offload is closed"), List.copyOf(ends));
    }
  }

  @Test
  void wrongUseIsNamed() throws Exception {
    try (Life life = new Life("memory:?bytes=1MiB", 0); Manager silent = new Manager(new Config().numBlocks(16).blockSize(4))) {
      life.offload.close();
      List<Storage> one = List.of(life.s);
      List<Tier> tiers = List.of(life.tier);
      record Case(String text, Executable call) {}
      for (Case wrong : List.of(new Case("storages has 2 entries; it needs one for each of the 1", () -> new Offload(life.m, List.of(life.s, life.s), tiers, PAGES, null)),
          new Case("pageSizes has 0 entries", () -> new Offload(life.m, null, tiers, PAGES, null)),
          new Case("num_tiers is 0", () -> new Offload(life.m, one, List.of(), PAGES, null)),
          new Case("is an Offload's", () -> new Offload(life.m, one, List.of(life.tier, life.tier), PAGES, null)),
          new Case("policy is 64", () -> new Offload(life.m, one, tiers, PAGES, new OffloadOptions().policy(64))),
          new Case("event_capacity", () -> new Offload(silent, one, tiers, PAGES, null)),
          new Case("timeoutNs is -1", () -> new OffloadOptions().timeoutNs(-1)),
          new Case("num_storages is 2", () -> Checkpoint.save(life.m, List.of(life.s, life.s), Path.of("x"), PAGES, null)),
          new Case("id is -1", () -> Checkpoint.info(Path.of("x"), -1)),
          new Case("nowhere", () -> Checkpoint.list(Path.of("/nowhere"))))) {
        String text = assertThrows(Exception.class, wrong.call).getMessage();
        assertTrue(text.contains(wrong.text), text);
        life.tier.exists(Buffers.bytes(32), null); // given back
      }
    }
  }

  @Test
  void aCheckpointGivesTheSameHitsAndBytes(@TempDir Path folder) throws Exception {
    int[] prompt = sequence(100, 21);
    Config config = new Config().numBlocks(32).blockSize(4);
    CheckpointOptions options = new CheckpointOptions().requests(true).sync(false);
    try (Manager m = new Manager(config); Storage s = storage(32); Manager next = new Manager(config); Storage memory = storage(32)) {
      ByteBuffer rows = compute(m, s, prompt);
      List<Long> tenants = new ArrayList<>();
      for (int i = 0; i < 30; ++i) { // more than a first guess
        tenants.add(m.openNamespace(null, null, new byte[] {(byte) i}));
      }
      Request waiting = m.create(prompt, null);
      Checkpoint saved = Checkpoint.save(m, List.of(s), folder.resolve("c"), PAGES, options);
      assertEquals(List.of(1L, 5L, 5L, 30L, 1L), List.of(saved.id(), saved.numPages(), saved.numBlocks(), saved.numNamespaces(), saved.numRequests()));
      assertEquals(List.of("none", "a model", "of May"), List.of(saved.codec(), saved.model(), saved.weights()));
      assertArrayEquals(m.contentDigest(), saved.content());
      Checkpoint.Restored restored = Checkpoint.restore(next, List.of(memory), folder.resolve("c"), PAGES, options);
      assertArrayEquals(m.contentDigest(), next.contentDigest());
      assertTrue(restored.info().idsKept() && restored.namespaces().keySet().containsAll(tenants));
      assertEquals(30, restored.namespaces().size());
      Request again = restored.requests().get(waiting.id());
      assertEquals(20, again.admit());
      assertEquals(rows, stored(memory, again));
      assertEquals(Native.KVC_ERROR_BUSY,
          assertThrows(KvCacheException.class, () -> Checkpoint.restore(next, List.of(memory), folder.resolve("c"), PAGES, null)).status());
      saved = Checkpoint.save(m, Arrays.asList((Storage) null), folder.resolve("without"), PAGES, null);
      assertEquals(List.of(5L, 0L), List.of(saved.numBlocks(), saved.numPages()));
    }
  }

  @Test
  void checkpointsAreListedValidatedCompactedAndRemoved(@TempDir Path folder) throws Exception {
    CheckpointOptions options = new CheckpointOptions().sync(false);
    try (Manager m = new Manager(new Config().numBlocks(32).blockSize(4)); Storage s = storage(32)) {
      assertEquals(Native.KVC_ERROR_NOT_FOUND,
          assertThrows(KvCacheException.class, () -> Checkpoint.save(m, List.of(s), folder, PAGES, new CheckpointOptions().increment(true))).status());
      for (int i = 0; i < 3; ++i) {
        compute(m, s, sequence(100 * i, 21));
        Checkpoint saved = Checkpoint.save(m, List.of(s), folder, PAGES, options);
        assertEquals(List.of(i + 1L, 5L, 5L * i + 5), List.of(saved.id(), saved.newPages(), saved.numPages()));
        options.increment(true);
      }
      assertArrayEquals(new long[] {1, 2, 3}, Checkpoint.list(folder));
      assertEquals(List.of(15L, 10L), List.of(Checkpoint.info(folder, 0).numPages(), Checkpoint.validate(folder, 2).numPages()));
      Checkpoint.remove(folder, 2);
      Checkpoint compacted = Checkpoint.compact(folder, new CheckpointOptions().keepLast(1).sync(false));
      assertEquals(List.of(4L, 1L, 15L), List.of(compacted.id(), compacted.numFiles(), compacted.numPages()));
      assertArrayEquals(new long[] {4}, Checkpoint.list(folder));
      assertEquals(0, Checkpoint.save(m, List.of(s), folder, PAGES, options.every(10, 5, 6)).id());
      try (var files = Files.list(folder)) {
        for (Path file : files.toList()) {
          byte[] content = Files.readAllBytes(file);
          if (content.length > 8192) {
            content[5000] ^= 1;
            Files.write(file, content);
          }
        }
      }
      KvCacheException damaged = assertThrows(KvCacheException.class, () -> Checkpoint.validate(folder, 0));
      assertEquals(Native.KVC_ERROR_CORRUPT, damaged.status());
      assertTrue(damaged.getMessage().contains(folder.getFileName().toString()), damaged.getMessage());
      assertFalse(Arrays.equals(m.contentDigest(), new byte[32]));
      assertNotEquals(0, compacted.fileBytes());
    }
  }
}
