// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import static io.kvcache.ManagerTest.sequence;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.IntBuffer;
import java.nio.LongBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class TierTest {
  private static final int PAGE = 4096;
  /** Of pages of no model: those of tests. */
  static final byte[] FINGERPRINT = java.util.Arrays.copyOf("the pages of a test".getBytes(java.nio.charset.StandardCharsets.US_ASCII), 32);

  private static ByteBuffer random(long seed, int bytes) {
    byte[] values = new byte[bytes];
    new Random(seed).nextBytes(values);
    return Buffers.copy(values);
  }

  private static Tier open(String more) throws Exception {
    return new Tier("memory:?bytes=1MiB" + more, PAGE, FINGERPRINT);
  }

  @Test
  void whatWasPutComesBack(@TempDir Path folder) throws Exception {
    for (String url : List.of("memory:?bytes=1MiB", "memory:?bytes=1MiB&threads=0", "dir:" + folder + "/d?bytes=8MiB", "slab:" + folder + "/s?bytes=8MiB")) {
      try (Tier tier = new Tier(url, PAGE, FINGERPRINT)) {
        ByteBuffer keys = random(1, 20 * 32), pages = random(2, 20 * PAGE), back = Buffers.bytes(20 * PAGE);
        assertEquals(PageResult.MISS, tier.get(keys, back, null).result(19));
        assertEquals(20, tier.put(keys, pages, null).numOk());
        Tier.Done got = tier.get(keys, back, new JobOptions().timeoutNs(60_000_000_000L));
        assertEquals(20, got.numOk());
        assertEquals(pages, back);
        List<ByteBuffer> each = new ArrayList<>();
        for (int i = 0; i < 20; ++i) {
          each.add(Buffers.bytes(12));
        }
        LongBuffer runs = Buffers.longs(4).put(new long[] {0, 4, 4000, 8}).flip();
        assertEquals(20, tier.await(tier.submitGet(keys, each, new JobOptions().runs(runs, 0))).numOk());
        assertEquals(pages.slice(3 * PAGE + 4000, 8), each.get(3).slice(4, 8));
        assertEquals(1, tier.remove(keys.slice(0, 32), null).numOk());
        assertEquals(19, tier.exists(keys, null).numOk());
        Tier.Counts counts = tier.counts(Tier.Kind.GET);
        assertEquals(List.of(3L, 60L, 40L, 20L), List.of(counts.jobs(), counts.items(), counts.ok(), counts.misses()));
        assertEquals(19, tier.stats().pages());
      }
    }
  }

  @Test
  void leasesAndGenerationsArePromises() throws Exception {
    try (Tier tier = open("")) {
      ByteBuffer keys = random(1, 3 * 32), pages = random(2, 3 * PAGE);
      tier.put(keys, pages, null);
      Tier.Done found = tier.exists(keys, new JobOptions().nowNs(1000).leaseNs(1_000_000_000));
      assertTrue(found.leaseUntilNs()[2] >= 1_000_001_000 && found.generations()[2] != 0);
      assertEquals(PageResult.PENDING, tier.remove(keys, new JobOptions().nowNs(1001)).result(0));
      assertEquals(3, tier.get(keys, pages, new JobOptions().generations(found.generations())).numOk());
      assertEquals(3, tier.remove(keys, new JobOptions().nowNs(1L << 60)).numOk());
      tier.put(keys, pages, null);
      assertEquals(PageResult.EXPIRED, tier.get(keys, pages, new JobOptions().generations(found.generations())).result(1));
    }
  }

  @Test
  void buffersAreReachableUntilTheJobHasEnded() throws Exception {
    try (Tier tier = open("")) {
      ByteBuffer keys = random(1, 8 * 32);
      tier.put(keys, random(2, 8 * PAGE), null);
      for (int turn = 0; turn < 300; ++turn) {
        tier.submitGet(random(1, 8 * 32), Buffers.bytes(8 * PAGE), null);
        if (turn % 50 == 0) {
          System.gc();
        }
      }
      tier.drain();
      assertEquals(8, tier.get(keys, Buffers.bytes(8 * PAGE), null).numOk());
    }
  }

  @Test
  void jobsCompleteForWhoeverWaits() throws Exception {
    try (Tier tier = open("")) {
      ByteBuffer keys = random(1, 64 * 32), pages = random(2, 64 * PAGE);
      tier.put(keys, pages, null);
      ConcurrentLinkedQueue<String> faults = new ConcurrentLinkedQueue<>();
      List<Thread> threads = new ArrayList<>();
      for (int t = 0; t < 6; ++t) {
        Random draw = new Random(t);
        threads.add(new Thread(() -> {
          try {
            for (int turn = 0; turn < 100; ++turn) {
              int first = draw.nextInt(60);
              ByteBuffer back = Buffers.bytes(4 * PAGE);
              Tier.Job job = tier.submitGet(keys.slice(32 * first, 4 * 32), back, new JobOptions().timeoutNs(turn % 2 * 60_000_000_000L));
              int ok = turn % 3 == 0 ? tier.await(job).numOk() : job.thenApply(Tier.Done::numOk).get(60, TimeUnit.SECONDS);
              if (ok != 4 || !back.equals(pages.slice(first * PAGE, 4 * PAGE))) {
                faults.add("page " + first);
              }
            }
          } catch (Exception error) {
            faults.add(error.toString());
          }
        }));
      }
      threads.forEach(Thread::start);
      for (Thread thread : threads) {
        thread.join();
      }
      assertEquals(List.of(), List.copyOf(faults));
    }
  }

  @Test
  void withoutThreadsTheCallerDoesTheWork() throws Exception {
    try (Tier tier = open("&threads=0")) {
      Tier.Job job = tier.submitExists(random(1, 64), null);
      assertTrue(tier.runOne());
      assertFalse(tier.runOne());
      assertEquals(0, job.get(60, TimeUnit.SECONDS).numOk());
      Tier.Job cancelled = tier.submitExists(random(1, 64), null);
      assertTrue(tier.cancel(cancelled));
      assertFalse(tier.cancel(job));
      assertEquals(PageResult.CANCELLED, cancelled.get(60, TimeUnit.SECONDS).result(1));
      Tier.Job late = tier.submitExists(random(1, 64), new JobOptions().timeoutNs(1));
      assertEquals(PageResult.TIMEOUT, late.get(60, TimeUnit.SECONDS).result(0)); // which nobody polls but the tier's thread
      Tier.Job open = tier.submitExists(random(1, 64), null);
      tier.close();
      assertEquals(IllegalStateException.class, assertThrows(CompletionException.class, open::join).getCause().getClass());
      assertEquals("Tier[closed]", tier.toString());
      assertThrows(IllegalStateException.class, () -> tier.exists(random(1, 32), null));
      tier.close();
    }
  }

  @Test
  void aCallbackMayNotWaitForAnotherJob() throws Exception {
    try (Tier tier = open("&threads=0")) {
      Tier.Job job = tier.submitExists(random(1, 32), null);
      var answer = job.thenApply(done -> assertThrows(IllegalStateException.class, () -> tier.exists(random(1, 32), null)).getMessage());
      tier.drain();
      assertTrue(answer.get(60, TimeUnit.SECONDS).contains("thenApplyAsync"));
      tier.drain();
    }
  }

  @Test
  void wrongUseIsNamed() throws Exception {
    try (Tier tier = open("")) {
      ByteBuffer keys = random(1, 64), pages = random(2, 2 * PAGE);
      record Case(String text, org.junit.jupiter.api.function.Executable call) {}
      for (Case wrong : List.of(new Case("keys has 63 bytes; it needs a multiple of 32", () -> tier.exists(random(1, 63), null)),
          new Case("pages has 8191 bytes; it needs equally many", () -> tier.put(keys, random(1, 8191), null)),
          new Case("direct and in native order", () -> tier.put(keys, ByteBuffer.allocate(64), null)),
          new Case("read-only buffer", () -> tier.get(keys, pages.asReadOnlyBuffer(), null)),
          new Case("pages has 1 buffers; it needs one for each of the 2 keys", () -> tier.submitGet(keys, List.of(pages), null)),
          new Case("generations has 1 numbers; it needs 2", () -> tier.get(keys, pages, new JobOptions().generations(1))),
          new Case("the runs have 5000", () -> tier.get(keys, pages, new JobOptions().runs(Buffers.longs(2).put(0, 0).put(1, 5000), 0))),
          new Case("runs has 1 numbers", () -> new JobOptions().runs(Buffers.longs(1), 0)),
          new Case("timeoutNs is -1", () -> new JobOptions().timeoutNs(-1)),
          new Case("fingerprint has 31 bytes; it needs 32", () -> new Tier("memory:?bytes=1MiB", PAGE, new byte[31])),
          new Case("digests has 33 bytes", () -> Tier.pageKeys(Buffers.bytes(33), 0, new byte[32])))) {
        String text = assertThrows(IllegalArgumentException.class, wrong.call).getMessage();
        assertTrue(text.contains(wrong.text), text);
      }
      for (Case wrong : List.of(new Case("a job without items", () -> tier.exists(Buffers.bytes(0), null)),
          new Case("bytes='much'", () -> new Tier("memory:?bytes=much", PAGE, new byte[32])),
          new Case("runs[0]", () -> tier.get(keys, pages, new JobOptions().runs(Buffers.longs(2).put(0, 4090).put(1, 7), 0))),
          new Case("Looked for", () -> Tier.openPlugin("nowhere", null)))) {
        String text = assertThrows(KvCacheException.class, wrong.call).getMessage();
        assertTrue(text.contains(wrong.text), text);
      }
      assertEquals("Tier[memory:?bytes=1MiB, pages of 4096 bytes, 0 jobs]", tier.toString());
    }
  }

  @Test
  void tiersAreFreed() throws Exception {
    SizesTest.collect();
    long alive = Handle.LIVE.get();
    for (int i = 0; i < 30; ++i) {
      Tier tier = open("&threads=" + i % 3);
      tier.submitGet(random(i, 64), Buffers.bytes(2 * PAGE), null);
      if (i % 2 == 0) {
        tier.close();
      } else if (i % 3 != 0) {
        tier.drain();
      } else {
        tier.drain();
        tier.exists(random(i, 64), null);
      }
    }
    for (int turn = 0; turn < 100 && Handle.LIVE.get() != alive; ++turn) {
      SizesTest.collect();
      Thread.sleep(10);
    }
    assertEquals(alive, Handle.LIVE.get());
  }

  /** As docs/JAVA.md has it. */
  @Test
  void theExampleOfTheManual() throws Exception {
    int[] prompt = sequence(0, 100);
    try (Manager manager = new Manager(64); Storage storage = new Storage(new StorageConfig(64, 2, 4, 32)); Request request = manager.allocate(prompt)) {
      IntBuffer blocks = Buffers.of(java.util.Arrays.copyOf(request.blockTable(0), 6));
      storage.slab().put(random(5, storage.slab().capacity()));
      ByteBuffer before = Buffers.bytes(storage.slab().capacity()).put(storage.slab()).flip();
      Storage.PageInfo info = storage.pageInfo(new PageConfig("my-model".getBytes(), "weights of May".getBytes()));
      ByteBuffer keys = Tier.pageKeys(manager.positionDigests(0, Buffers.of(prompt)), 0, info.fingerprint());
      int count = keys.remaining() / 32;
      ByteBuffer pages = Buffers.bytes(count * (int) info.pageBytes());
      try (Tier tier = new Tier("memory:?bytes=64MiB", info.pageBytes(), info.fingerprint())) {
        storage.packPages(blocks, pages, 0);
        tier.put(keys, pages, null);
        storage.zeroBlocks(blocks, null);
        Tier.Job job = tier.submitGet(keys, pages, new JobOptions().timeoutNs(60_000_000_000L));
        Tier.Done done = tier.await(job);
        for (int i = 0; i < count; ++i) {
          if (done.result(i) == PageResult.OK) {
            storage.unpackPages(Buffers.of(blocks.get(i)), pages.slice(i * (int) info.pageBytes(), (int) info.pageBytes()), 0);
          }
        }
        assertEquals(6, done.numOk());
      }
      assertEquals(before, storage.slab());
    }
  }

  @Test
  void pagesOfAStorageAreKeptInATier() throws Exception {
    StorageConfig shape = new StorageConfig(8, 2, 2, 8).blockSize(4).dtype(DType.FLOAT16);
    try (Manager m = new Manager(new Config().numBlocks(8).blockSize(4)); Storage s = new Storage(shape); Storage other = new Storage(shape)) {
      s.slab().put(random(5, s.slab().capacity()));
      PageConfig config = new PageConfig("m".getBytes(), "w".getBytes()).numerics(new byte[0]);
      Storage.PageInfo info = s.pageInfo(config);
      assertEquals(2 * 2 * 2 * 4 * 8 * 2, info.pageBytes());
      LongBuffer runs = s.pageRuns(config);
      assertEquals(List.of(0L, info.pageBytes()), List.of(runs.get(0), runs.get(1)));
      assertEquals(2, runs.limit());
      ByteBuffer digests = m.positionDigests(0, Buffers.of(sequence(0, 33)));
      ByteBuffer keys = Tier.pageKeys(digests, 0, info.fingerprint());
      assertEquals(8 * 32, keys.remaining());
      assertFalse(keys.equals(Tier.pageKeys(digests, 1, info.fingerprint())));
      IntBuffer blocks = Buffers.of(0, 1, 2, 3, 4, 5, 6, 7);
      ByteBuffer pages = Buffers.bytes((int) (8 * info.pageBytes())), back = Buffers.bytes((int) (8 * info.pageBytes()));
      s.packPages(blocks, pages, 0);
      try (Tier tier = new Tier("memory:?bytes=1MiB", info.pageBytes(), info.fingerprint(), 1 << 20)) {
        assertEquals(8, tier.put(keys, pages, null).numOk());
        assertEquals(8, tier.get(keys, back, null).numOk());
      }
      other.unpackPages(blocks, back, info.partBytes());
      assertEquals(s.slab(), other.slab());
      Storage.PageInfo part = s.pageInfo(config.whole(4, 2).first(2, 0));
      assertEquals(info.partBytes(), part.partBytes());
      assertEquals(2 * info.pageBytes(), part.pageBytes());
      assertThrows(KvCacheException.class, () -> s.pageInfo(new PageConfig("m".getBytes(), null)));
      assertArrayEquals(info.fingerprint(), other.pageInfo(new PageConfig("m".getBytes(), "w".getBytes())).fingerprint());
    }
  }
}
