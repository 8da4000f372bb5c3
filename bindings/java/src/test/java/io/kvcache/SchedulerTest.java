// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import static io.kvcache.ManagerTest.sequence;
import static io.kvcache.ManagerTest.small;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.IntBuffer;
import java.nio.LongBuffer;
import java.nio.ReadOnlyBufferException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

class SchedulerTest {
  /** Computes plans without a model, and holds them against what it has computed before. */
  private static final class Engine {
    private static final class Live {
      final List<Integer> tokens = new ArrayList<>();
      int prompt;
      int written;
    }

    final Scheduler scheduler;
    final int maxTokens;
    final Map<Long, Live> live = new HashMap<>();
    final Map<Long, List<Integer>> cells = new HashMap<>(); // position and token in each slot
    int preempted;

    Engine(Scheduler s, int most) {
      scheduler = s;
      maxTokens = most;
    }

    void add(int[] prompt, Scheduler.Job job) throws Exception {
      Live one = new Live();
      for (int token : prompt) {
        one.tokens.add(token);
      }
      one.prompt = prompt.length;
      live.put(scheduler.add(prompt, 9, job), one);
    }

    void step() throws Exception {
      Scheduler.Plan plan = scheduler.plan(0);
      int items = plan.numItems();
      assertTrue(items > 0 && plan.requests().capacity() == items && plan.numTokens() <= maxTokens);
      for (int i = 0; i < plan.preempted().capacity(); ++i, ++preempted) {
        live.get(plan.preempted().get(i)).written = 0;
      }
      IntBuffer copies = plan.copies();
      for (int i = 0; i < copies.capacity(); i += 2) {
        for (long t = 0; t < 4; ++t) {
          cells.put(copies.get(i + 1) * 4 + t, cells.get(copies.get(i) * 4 + t));
        }
      }
      List<Integer> sampled = new ArrayList<>();
      for (int i = 0; i < items; ++i) {
        long id = plan.requests().get(i);
        Live one = live.get(id);
        int first = (int) plan.firstTokens().get(i), at = (int) plan.tokenOffsets().get(i), count = (int) plan.tokenOffsets().get(i + 1) - at;
        if (plan.isNew().get(i) == 0) {
          assertEquals(one.written, first, "every token is computed once");
        }
        IntBuffer row = plan.row(0, plan.rows().get(i));
        for (int p = first; p < first + count; ++p) {
          long slot = plan.slots().get(at + p - first);
          assertEquals(row.get(p / 4) * 4L + p % 4, slot);
          cells.put(slot, List.of(p, one.tokens.get(p)));
        }
        one.written = first + count;
        for (int p = 0; p < one.written; ++p) {
          assertEquals(List.of(p, one.tokens.get(p)), cells.get(row.get(p / 4) * 4L + p % 4));
        }
        assertEquals(one.written == one.tokens.size() ? 1 : 0, plan.samples().get(i));
        if (plan.samples().get(i) != 0) {
          sampled.add(Math.floorMod(id, 50)); // ids have any sign
          one.tokens.add(Math.floorMod(id, 50));
        }
      }
      for (Scheduler.Ended end : scheduler.finish(plan, sampled.stream().mapToInt(Integer::intValue).toArray())) {
        Live one = live.remove(end.request());
        assertEquals(new Scheduler.Ended(end.request(), Scheduler.Reason.LENGTH, 9), end);
        assertEquals(one.prompt + 9, one.tokens.size());
      }
      scheduler.check();
    }
  }

  private static int[] prompt(int i) {
    int[] own = sequence(100 * (i + 1), 4 + i), all = java.util.Arrays.copyOf(sequence(0, 16), 20 + i);
    System.arraycopy(own, 0, all, 16, own.length);
    return all;
  }

  @Test
  void anEngineRunsInASmallPool() throws Exception {
    for (Scheduler.Policy policy : Scheduler.Policy.values()) {
      Scheduler.Config config = new Scheduler.Config().policy(policy, Scheduler.Admission.CHUNK).limits(6, 16, 10);
      try (Manager m = small(24); Scheduler s = new Scheduler(m, config)) {
        Engine engine = new Engine(s, 16);
        for (int i = 0; i < 20; ++i) {
          engine.add(prompt(i), new Scheduler.Job().priority(i % 3));
        }
        while (!engine.live.isEmpty()) {
          engine.step();
        }
        Scheduler.Stats stats = s.stats();
        assertEquals(20, stats.ended());
        assertEquals(engine.preempted, stats.preemptions());
        assertTrue(engine.preempted > 0 && stats.cachedTokens() > 0, stats.toString());
        s.close();
        assertEquals(0, m.stats().liveRequests() + m.stats().waitingRequests());
      }
    }
  }

  @Test
  void preemptedRequestsAreSwappedByAnOffload() throws Exception {
    PageConfig names = new PageConfig(new byte[] {1}, new byte[] {2});
    OffloadOptions sizes = new OffloadOptions().pageSizes(64);
    try (Manager m = new Manager(new Config().numBlocks(16).blockSize(4).eventCapacity(256)); Manager other = small(16);
        Tier tier = new Tier("memory:?bytes=1MiB&threads=0", 64, TierTest.FINGERPRINT)) {
      Offload offload = new Offload(m, null, List.of(tier), names, sizes);
      Scheduler.Config config = new Scheduler.Config().limits(4, 16, 0);
      assertTrue(assertThrows(KvCacheException.class, () -> new Scheduler(other, config, offload)).getMessage().contains("another manager"));
      Scheduler s = new Scheduler(m, config, offload);
      for (int i = 0; i < 8; ++i) {
        s.add(sequence(100 * i, 13), 9, null);
      }
      for (int i = 0; i < 10000 && s.stats().ended() < 8; ++i) {
        offload.poll();
        Scheduler.Plan plan = s.plan(0);
        int count = 0;
        for (int k = 0; k < plan.numItems(); ++k) {
          count += plan.samples().get(k);
        }
        if (plan.numItems() != 0) {
          s.finish(plan, new int[count]);
        }
      }
      assertEquals(8, s.stats().ended());
      assertTrue(s.stats().preemptions() > 0 && offload.tierStats(0).storedPages() > 0);
      assertEquals(8 + s.stats().preemptions(), offload.stats().lookups());
      offload.close(); // in fact when the scheduler is
      assertThrows(IllegalStateException.class, offload::poll);
      s.add(sequence(0, 9), 3, null);
      s.plan(0); // asks the offload
      s.close();
      new Offload(m, null, List.of(tier), names, sizes).close(); // the tier is free again
    }
  }

  @Test
  void plansInFlightAndDrafts() throws Exception {
    try (Manager m = small(64); Scheduler s = new Scheduler(m, new Scheduler.Config().plans(2, 3))) {
      long id = s.add(sequence(0, 12), 6, null);
      Scheduler.Plan first = s.plan(0), second = s.plan(0);
      assertEquals(12, second.firstTokens().get(0));
      assertEquals(Status.BUSY.code, assertThrows(KvCacheException.class, () -> s.plan(0)).status());
      assertTrue(assertThrows(KvCacheException.class, () -> s.finish(second, 1)).getMessage().contains("the oldest plan in flight is 1"));
      assertEquals(List.of(), s.finish(first, 1));
      Scheduler.Plan third = s.plan(0);
      s.fail(second);
      assertThrows(IllegalStateException.class, third::rows);
      s.setDrafts(Buffers.longs(1).put(0, id), Buffers.of(3));
      Scheduler.Plan plan = s.plan(0);
      assertEquals(List.of(3, 12L, 4L), List.of(plan.numDrafts().get(0), plan.firstTokens().get(0), plan.tokenOffsets().get(1)));
      assertThrows(IllegalArgumentException.class, () -> s.finish(plan, Buffers.of(1, 2), offsets(0, 3), null));
      assertThrows(KvCacheException.class, () -> s.finish(plan, Buffers.of(1, 2, 3, 4, 5), offsets(0, 5), null));
      assertTrue(assertThrows(KvCacheException.class, () -> s.finish(plan, 1)).getMessage().contains("item 0 has 3 drafts"));
      assertEquals(List.of(new Scheduler.Ended(id, Scheduler.Reason.STOPPED, 4)), s.finish(plan, Buffers.of(1, 2, 3), offsets(0, 3), Buffers.bytes(1).put(0, (byte) 1)));
      assertThrows(KvCacheException.class, () -> s.setDrafts(Buffers.longs(1).put(0, id), Buffers.of(1)));
      assertThrows(IllegalArgumentException.class, () -> s.setDrafts(Buffers.longs(1).put(0, id), Buffers.of(1, 1)));
    }
  }

  private static LongBuffer offsets(long... values) {
    return Buffers.longs(values.length).put(values).flip();
  }

  @Test
  void statesAndErrors() throws Exception {
    try (Manager m = small(64); Manager other = small(8)) {
      assertThrows(KvCacheException.class, () -> new Scheduler(m, new Scheduler.Config().cacheAware().depthFirst()));
      Scheduler s = new Scheduler(m, new Scheduler.Config().kinds(2, 0).depthFirst().tokens(100, 0).maxWaitNs(5).watermarks(0.9, 0.5).adaptivePlans(3));
      assertEquals(Status.BUSY.code, assertThrows(KvCacheException.class, () -> new Scheduler(m, new Scheduler.Config())).status());
      assertThrows(KvCacheException.class, () -> new Scheduler(other, new Scheduler.Config().watermarks(2, 0)));
      long id = s.add(sequence(0, 12), 4, new Scheduler.Job().notReady().priority(3).tenant(1).adapter(7).nowNs(5).inputs(2, 3, 8, 2).expectedNewTokens(2)
          .options(new RequestOptions().keys(new RequestOptions.ExtraKey(2, 3, new byte[32]))));
      assertEquals(new Scheduler.Info(Scheduler.State.NOT_READY, -1, 12, 12, 0, 0, 0, 5, 3, 1, 1), s.info(id));
      Scheduler.Plan empty = s.plan(10);
      assertEquals(List.of(0, 0L, 1), List.of(empty.numItems(), empty.id(), empty.tokenOffsets().capacity()));
      s.setReady(id);
      s.setPriority(id, -1);
      s.setWeight(1, 2.5);
      Scheduler.Plan plan = s.plan(0);
      assertThrows(IllegalStateException.class, empty::tokenOffsets);
      assertEquals(Buffers.of(0, 0, 0, 1), plan.encoderRuns());
      assertEquals(List.of(), plan.ended());
      assertEquals("Plan[plan 1: 1 items]", plan.toString());
      assertThrows(ReadOnlyBufferException.class, () -> plan.requests().put(0, 1));
      assertThrows(ReadOnlyBufferException.class, () -> plan.samples().put(0, (byte) 1));
      assertThrows(IndexOutOfBoundsException.class, () -> plan.row(1, 0));
      for (Executable wrong : new Executable[] {() -> s.finish(plan), () -> s.finish(plan, 1, 2), () -> s.finish(plan, Buffers.of(1), offsets(0), null),
          () -> s.finish(plan, Buffers.of(1), null, Buffers.bytes(2)), () -> s.finish(plan, Buffers.of(1), offsets(0, -1), null)}) {
        assertThrows(IllegalArgumentException.class, wrong);
      }
      assertTrue(assertThrows(KvCacheException.class, () -> s.finish(plan, Buffers.of(), offsets(0, 0), null)).getMessage().contains("item 0 brings 0 tokens"));
      assertThrows(KvCacheException.class, () -> s.finish(plan, -1));
      s.abort(id);
      for (Executable wrong : new Executable[] {() -> s.abort(id), () -> s.setReady(id), () -> s.setPriority(id, 1)}) {
        assertEquals(Status.NOT_FOUND.code, assertThrows(KvCacheException.class, wrong).status());
      }
      LongBuffer kept = plan.requests();
      s.finish(plan, 1);
      assertEquals(0, kept.limit());
      assertThrows(IllegalStateException.class, plan::requests);
      assertTrue(assertThrows(KvCacheException.class, () -> s.finish(plan, 1)).getMessage().contains("plan 1 is not in flight"));
      assertThrows(KvCacheException.class, () -> s.add(sequence(0, 5), 3, new Scheduler.Job().tenant(2)));
      assertThrows(KvCacheException.class, () -> s.add(sequence(0, 5), 3, new Scheduler.Job().inputs(0, 99)));
      assertThrows(KvCacheException.class, () -> s.add(sequence(0, 5), 3, new Scheduler.Job().options(new RequestOptions().slots(3))));
      assertThrows(IllegalArgumentException.class, () -> new Scheduler.Job().inputs(1));
      try (Scheduler second = new Scheduler(other, new Scheduler.Config())) {
        assertThrows(IllegalArgumentException.class, () -> second.finish(plan, 1));
      }
      s.add(sequence(0, 5), 3, null);
      Scheduler.Plan last = s.plan(0);
      IntBuffer tables = last.blockTables();
      m.close(); // in fact when the scheduler is
      s.close();
      s.close();
      assertEquals(0, tables.limit());
      assertThrows(IllegalStateException.class, last::slots);
      assertThrows(IllegalStateException.class, () -> s.plan(0));
      assertThrows(IllegalStateException.class, () -> s.finish(last, 1));
    }
  }

  @Test
  void buffersKeepTheMemoryOfASchedulerThatIsUnreachable() throws Exception {
    settle();
    long before = Handle.LIVE.get();
    IntBuffer tables = tablesOfALostScheduler();
    settle();
    assertEquals(before + 2, Handle.LIVE.get(), "the manager and the scheduler are there");
    assertTrue(tables.get(0) >= 0 && tables.get(1) >= 0 && tables.get(3) == -1);
    tables = null;
    for (int i = 0; i < 100 && Handle.LIVE.get() != before; ++i) {
      settle();
    }
    assertEquals(before, Handle.LIVE.get());
  }

  private static void settle() throws Exception {
    for (int i = 0; i < 3; ++i) {
      System.gc();
      Thread.sleep(20);
    }
  }

  private static IntBuffer tablesOfALostScheduler() throws Exception {
    Scheduler s = new Scheduler(small(64), new Scheduler.Config());
    s.add(sequence(0, 9), 3, null);
    return s.plan(0).blockTables();
  }
}
