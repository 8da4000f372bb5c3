// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;

class CyclesTest {
  static long residentBytes() throws Exception {
    return 4096 * Long.parseLong(Files.readString(Path.of("/proc/self/statm")).split(" ")[1]);
  }

  /** Closes managers with a request and a step, every 64th with a storage, a stream and a tier: KVC_CYCLES of them, some thousands by default. */
  @Test
  void manyLivesLeaveNothing() throws Exception {
    int count = Integer.parseInt(System.getenv().getOrDefault("KVC_CYCLES", "5000"));
    SizesTest.collect(); // what other tests have forgotten
    long alive = Handle.LIVE.get(), before = 0;
    int[] tokens = ManagerTest.sequence(0, 40);
    for (int number = 0; number < count; ++number) {
      if (number == count / 4) {
        System.gc();
        before = residentBytes();
      }
      try (Manager m = new Manager(new Config().numBlocks(64).maxRequests(4).eventCapacity(8)); Request r = m.allocate(tokens);
          Step step = new Step(m, new Step.Limits(2, 4, 2, 8, 0, 0, 0))) {
        r.commit(40);
      }
      if (number % 64 == 0) {
        try (Manager m = new Manager(new Config().numBlocks(8).maxRequests(4)); Scheduler s = new Scheduler(m, new Scheduler.Config().limits(2, 16, 0))) {
          s.add(tokens, 4, new Scheduler.Job().inputs(0, 2));
          s.plan(0).blockTables();
        }
        try (Storage s = new Storage(new StorageConfig(2, 1, 1, 8)); Stream stream = new Stream(); StreamEvent event = new StreamEvent()) {
          s.zeroBlocks(ManagerTest.direct(1), stream);
          event.record(stream);
        }
        try (Tier tier = new Tier("memory:?bytes=4096&jobs=4", 256, TierTest.FINGERPRINT)) {
          tier.submitExists(Buffers.bytes(64), null);
          tier.exists(Buffers.bytes(32), null);
        }
      }
    }
    assertEquals(alive, Handle.LIVE.get());
    System.gc();
    long grown = residentBytes() - before;
    System.out.printf("%d lives: %.1f MiB more memory than after a quarter of them%n", count, grown / 1048576.0);
    assertTrue(grown < 64 << 20, "the heap of the JVM aside, nothing may grow"); // a leaked manager of each life would be more
  }
}
