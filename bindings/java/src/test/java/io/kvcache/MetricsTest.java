// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.junit.jupiter.api.Test;

/** The text of all objects, latencies and memory. */
class MetricsTest {
  private static final PageConfig PAGES = new PageConfig("a model".getBytes(), "of May".getBytes());

  private final Manager m = new Manager(new Config().numBlocks(16).blockSize(4).eventCapacity(256));
  private final Manager other = new Manager(new Config().numBlocks(8).blockSize(4));
  private final Storage s = new Storage(new StorageConfig(16, 2, 2, 8).blockSize(4).dtype(DType.FLOAT32));

  MetricsTest() throws KvCacheException {}

  private static List<String> lines(List<Metrics.Source> sources, boolean vllm) throws KvCacheException {
    return Arrays.asList(new String(Metrics.render(sources, vllm), StandardCharsets.UTF_8).split("\n"));
  }

  private void admit() throws KvCacheException {
    try (Request request = m.allocate(1, 2, 3, 4, 5)) {
      request.commit(5);
    }
  }

  @Test
  void theTextHasAllObjectsWithTheirLabels() throws Exception {
    Storage.PageInfo info = s.pageInfo(PAGES);
    try (Tier tier = new Tier("memory:?bytes=1MiB", info.pageBytes(), info.fingerprint());
        Offload offload = new Offload(m, List.of(s), List.of(tier), PAGES, null);
        Scheduler scheduler = new Scheduler(other, new Scheduler.Config())) {
      Metrics.enableLatencies(m, s, tier, offload, other, scheduler);
      admit();
      offload.poll();
      Map<String, String> first = Map.of("model", "a \"b\"\\\n\u00e9"), second = Map.of("model", "c", "rank", "1");
      List<String> lines = lines(List.of(new Metrics.Source(scheduler, second), new Metrics.Source(m, first), new Metrics.Source(s, first),
          new Metrics.Source(tier, first), new Metrics.Source(offload, first), new Metrics.Source(other, second)), true);
      for (String line : List.of("kvcache_admissions_total{model=\"a \\\"b\\\"\\\\\\n\u00e9\",order=\"first\"} 1",
          "kvcache_scheduler_requests{model=\"c\",rank=\"1\",state=\"running\"} 0", "vllm:num_requests_waiting{model=\"c\",rank=\"1\"} 0")) {
        assertTrue(lines.contains(line), line);
      }
      assertEquals("# EOF", lines.get(lines.size() - 1));
      Metrics.LatencyInfo latency = Metrics.readLatency(m, Metrics.Latency.ADMIT);
      assertTrue(latency.count() == 1 && latency.maxNs() > 0 && latency.p50Ns() <= latency.maxNs() && latency.sumNs() == latency.maxNs());
      assertEquals(1, Metrics.readLatency(offload, Metrics.Latency.POLL).count());
      Metrics.MemoryProfile memory = Metrics.readMemory(m, s, tier, offload, scheduler);
      assertTrue(memory.metadataBytes() > m.stats().metadataBytes() && memory.slabBytes() > 0 && memory.tierBytes() >= 1 << 20);
      assertTrue(memory.offloadBytes() > 0 && memory.schedulerPeakBytes() >= memory.schedulerBytes() && memory.schedulerBytes() > 0);
    }
  }

  @Test
  void badSourcesAreRefused() throws Exception {
    assertEquals(List.of("# EOF"), lines(List.of(), false));
    for (Map<String, String> labels : List.of(Map.of("state", "x"), Map.of("1", "x"))) {
      KvCacheException error = assertThrows(KvCacheException.class, () -> lines(List.of(new Metrics.Source(m, labels)), false));
      assertEquals(Native.KVC_ERROR_INVALID_ARGUMENT, error.status());
    }
    assertThrows(KvCacheException.class, () -> lines(List.of(new Metrics.Source(m, Map.of()), new Metrics.Source(other, Map.of())), false));
    assertThrows(IllegalArgumentException.class, () -> lines(List.of(new Metrics.Source(m, Map.of("a", "\0"))), false));
    assertThrows(IllegalArgumentException.class, () -> Metrics.readMemory(() -> {}));
    assertEquals(Native.KVC_ERROR_BUSY, assertThrows(KvCacheException.class, () -> Metrics.readLatency(m, Metrics.Latency.STEP)).status());
    assertEquals(Native.KVC_ERROR_INVALID_ARGUMENT, assertThrows(KvCacheException.class, () -> Metrics.readLatency(m, Metrics.Latency.PLAN)).status());
    other.close();
    assertThrows(IllegalStateException.class, () -> Metrics.readMemory(m, other));
  }

  @Test
  void threadsReadBesideWorkAndClose() throws Exception {
    Storage.PageInfo info = s.pageInfo(PAGES);
    Tier tier = new Tier("memory:?bytes=1MiB", info.pageBytes(), info.fingerprint());
    Offload offload = new Offload(m, List.of(s), List.of(tier), PAGES, new OffloadOptions().policy(OffloadOptions.WRITE_THROUGH));
    ConcurrentLinkedQueue<Throwable> faults = new ConcurrentLinkedQueue<>();
    List<Thread> threads = new ArrayList<>();
    for (int t = 0; t < 3; ++t) {
      threads.add(new Thread(() -> {
        try {
          for (int i = 0; i < 100; ++i) {
            lines(List.of(new Metrics.Source(offload, Map.of()), new Metrics.Source(tier, Map.of()), new Metrics.Source(m, Map.of())), false);
          }
        } catch (IllegalStateException closed) {
          // as it should be
        } catch (Throwable fault) {
          faults.add(fault);
        }
      }));
      threads.get(t).start();
    }
    for (int i = 0; i < 20; ++i) {
      admit();
      offload.poll();
    }
    offload.close();
    tier.close();
    for (Thread thread : threads) {
      thread.join();
    }
    assertTrue(faults.isEmpty(), faults::toString);
  }
}
