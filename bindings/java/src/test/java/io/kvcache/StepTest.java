// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import static io.kvcache.ManagerTest.sequence;
import static io.kvcache.ManagerTest.small;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvcache.RequestOptions.ExtraKey;
import java.nio.IntBuffer;
import java.nio.LongBuffer;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

class StepTest {
  @Test
  void aStepDecodesABatch() throws Exception {
    int n = 5, steps = 30;
    try (Manager m = small(64); Step s = new Step(m, new Step.Limits(n, n, n + 1, 16, 1, 1, 9))) {
      List<Request> requests = new ArrayList<>();
      for (int i = 0; i < n; ++i) {
        requests.add(m.allocate(sequence(10 * i, 6)));
        s.requests().put(i, requests.get(i).id());
        s.extendOffsets().put(i + 1, i + 1);
      }
      long id = 0;
      for (int k = 0; k < steps; ++k) {
        for (int i = 0; i < n; ++i) {
          s.committed().put(i, 6 + k);
          s.extendTokens().put(i, k + i);
        }
        id = s.counts(n, 0, 0).run(id);
        for (int i = 0; i < n; ++i) {
          assertEquals(0, s.status().get(i));
        }
      }
      assertEquals(steps, id);
      for (int i = 0; i < n; ++i) {
        int[] table = requests.get(i).blockTable(0), row = new int[table.length];
        s.row(0, i).get(row);
        assertArrayEquals(table, row);
        LongBuffer slot = Buffers.longs(1);
        requests.get(i).slots(0, 5 + steps, slot);
        assertEquals(slot.get(0), s.slots().get(i));
      }
      s.frees().put(0, requests.get(0).id());
      s.admitTokens().put(0, sequence(500, 9));
      s.admitOffsets().put(1, 9);
      s.counts(0, 1, 1).run(id);
      assertEquals(9, m.request(s.admitted().get(0)).info().numTokens());
      assertEquals(0, s.numRefused() + s.numCopies());
      assertThrows(KvCacheException.class, () -> s.counts(n + 1, 0, 0).run(0));
      s.close();
      assertThrows(IllegalStateException.class, () -> s.run(0));
      m.check();
    }
  }

  @Test
  void idsThatAreNotSetAreRefusedAndCountOnce() throws Exception {
    try (Manager m = small(16); Step s = new Step(m, new Step.Limits(2, 4, 3, 4, 1, 1, 8)); Request r = m.allocate(sequence(0, 4))) {
      for (IntBuffer ids : List.of(s.extendTokens(), s.admitTokens())) {
        for (int i = 0; i < ids.capacity(); ++i) {
          assertEquals(-1, ids.get(i));
        }
      }
      assertEquals(-1, s.truncateLengths().get(0));
      assertEquals(-1, s.admitOffsets().get(1));
      s.requests().put(0, r.id());
      s.committed().put(0, 4);
      s.extendOffsets().put(1, 1);
      long id = s.counts(1, 0, 0).run(0);
      assertEquals(Native.KVC_ERROR_INVALID_ARGUMENT, s.status().get(0));
      s.extendTokens().put(0, 0); // an id like others
      id = s.run(id);
      assertEquals(0, s.status().get(0));
      id = s.run(id);
      assertEquals(Native.KVC_ERROR_INVALID_ARGUMENT, s.status().get(0));
      assertEquals(5, r.info().numTokens());
      assertThrows(KvCacheException.class, () -> s.counts(0, 0, 1).run(0));
      s.admitOffsets().put(1, 5);
      s.admitTokens().put(0, sequence(0, 4));
      id = s.run(id);
      assertEquals(Native.KVC_ERROR_INVALID_ARGUMENT, s.status().get(0));
      s.truncates().put(0, r.id());
      s.counts(0, 0, 0, 1, 0).run(id);
      assertEquals(Native.KVC_ERROR_INVALID_ARGUMENT, s.status().get(0));
      s.use(Step.ROWS, true);
      assertThrows(KvCacheException.class, () -> s.counts(1, 0, 0).run(0));
      assertEquals(5, r.info().numTokens());
    }
  }

  @Test
  void aBufferThatIsOffIsNeitherWrittenNorRead() throws Exception {
    try (Manager m = small(8); Step s = new Step(m, new Step.Limits(1, 4, 1, 4, 0, 0, 0)); Request r = m.allocate(sequence(0, 4))) {
      off("commitTokens is off; switch it on with use(Step.COMMIT_OFFSETS, true)", s::commitTokens);
      off("commitOffsets is off; switch it on with use(Step.COMMIT_OFFSETS, true)", s::commitOffsets);
      off("rows is off; switch it on with use(Step.ROWS, true)", s::rows);
      assertThrows(IllegalArgumentException.class, () -> s.use(Native.KVC_STEP_REQUESTS, false)); // not optional
      IntBuffer kept = s.extendTokens();
      s.use(Step.EXTEND_TOKENS, false);
      assertThrows(IndexOutOfBoundsException.class, () -> kept.put(0, 7));
      off("extendTokens is off; switch it on with use(Step.EXTEND_TOKENS, true)", s::extendTokens);
      s.requests().put(0, r.id());
      s.committed().put(0, 4);
      s.extendOffsets().put(1, 4);
      s.counts(1, 0, 0).run(0);
      assertEquals(0, s.status().get(0));
      LongBuffer slots = Buffers.longs(4);
      r.slots(0, 4, slots);
      for (int i = 0; i < 4; ++i) {
        assertEquals(slots.get(i), s.slots().get(i));
      }
      assertEquals(4, r.info().numTokens());
      s.use(Step.SLOTS, false);
      s.use(Step.EXTEND_OFFSETS, false);
      s.use(Step.EXTEND_TOKENS, true);
      off("slots is off; switch it on with use(Step.SLOTS, true)", s::slots);
      off("extendTokens is off; switch it on with use(Step.EXTEND_OFFSETS, true)", s::extendTokens);
      s.use(Step.BLOCK_TABLES, false);
      off("blockTables is off; switch it on with use(Step.BLOCK_TABLES, true)", () -> s.row(0, 0));
      s.use(Step.EXTEND_OFFSETS, true);
      assertEquals(-1, s.extendTokens().get(0));
    }
  }

  private static void off(String text, Executable access) {
    assertEquals(text, assertThrows(IllegalStateException.class, access).getMessage());
  }

  @Test
  void aStepHasARowForEachItemByDefault() throws Exception {
    try (Manager m = small(8); Step s = new Step(m, new Step.Limits(2, 0, 0, 3, 0, 1, 8))) {
      assertEquals(3 * 3, s.blockTables().capacity());
      s.admitTokens().put(0, sequence(0, 8));
      s.admitOffsets().put(1, 8);
      assertEquals("Step[step 0: 0 requests, 0 frees, 0 preempts, 0 truncates, 1 admissions]", s.counts(0, 0, 1).toString());
      s.run(0);
      assertEquals(Status.OK, Status.of(s.status().get(0)));
      assertEquals(IntBuffer.wrap(new int[] {0, 1, -1}), s.row(0, 0));
      s.requests().put(0, s.admitted().get(0));
      s.fillId(5).flags(Step.WHOLE_ROWS).use(Step.COMMITTED, false);
      s.counts(1, 0, 0).run(0);
      assertEquals(IntBuffer.wrap(new int[] {0, 1, 5}), s.row(0, 0));
      assertThrows(KvCacheException.class, () -> s.flags(1 << 30).run(0));
      s.flags(Step.ADMIT_PAST_REFUSAL).admitTokens().put(0, sequence(20, 8));
      s.admitOffsets().put(1, 8);
      s.counts(0, 0, 1).run(0);
      Request all = m.allocate(sequence(40, 16));
      s.admitTokens().put(0, sequence(60, 8));
      s.admitOffsets().put(1, 8);
      s.run(0);
      assertEquals(Status.NO_SPACE, Status.of(s.status().get(0)));
      assertEquals(2, s.shortageBlocks());
      all.free();
      s.close();
      assertEquals("Step[closed]", s.toString());
    }
  }

  private static Step admitting(Manager m) throws KvCacheException {
    return new Step(m, new Step.Limits(0, 0, 3, 8, 0, 3, 64));
  }

  /** Runs one step that admits these prompts. */
  private static long admit(Step s, long id, int[][] prompts, RequestOptions... options) throws KvCacheException {
    int end = 0;
    for (int i = 0; i < prompts.length; ++i) {
      s.admitTokens().put(end, prompts[i]);
      end += prompts[i].length;
      s.admitOffsets().put(i + 1, end);
    }
    return s.counts(0, 0, prompts.length).run(id, options);
  }

  private static RequestOptions[] options(Manager m) throws KvCacheException {
    return new RequestOptions[] {new RequestOptions().namespace(m.openNamespace(null, null, new byte[] {1})).lookahead(3),
        new RequestOptions().slots(4).keys(new ExtraKey(0, 4, new byte[32]), new ExtraKey(4, 3, new byte[32])),
        new RequestOptions().flags(RequestOptions.NO_READ).keys(new ExtraKey(4, 2, new byte[32]))};
  }

  @Test
  void admissionsWithoutOptionsTakeTheirNamespacesFromTheStep() throws Exception {
    int[][] prompts = {sequence(0, 5), sequence(0, 5)};
    try (Manager m = small(64); Step s = admitting(m)) {
      long namespace = m.openNamespace(null, null, new byte[] {1});
      s.admitNamespaces().put(1, namespace);
      admit(s, 0, prompts);
      for (int i = 0; i < 2; ++i) {
        m.request(s.admitted().get(i)).commit(5);
        m.request(s.admitted().get(i)).free();
      }
      assertEquals(4, m.probe(0, ManagerTest.direct(prompts[0])));
      assertEquals(4, m.probe(namespace, ManagerTest.direct(prompts[0])));
      m.resetAll();
      admit(s, 1, prompts, new RequestOptions(), null);
      m.request(s.admitted().get(1)).commit(5);
      assertEquals(4, m.probe(0, ManagerTest.direct(prompts[0])));
      assertEquals(0, m.probe(namespace, ManagerTest.direct(prompts[0])));
      s.admitNamespaces().put(0, 12345);
      admit(s, 2, prompts);
      assertEquals(Native.KVC_ERROR_NOT_FOUND, s.status().get(0));
    }
  }

  @Test
  void optionsOfAdmissionsEqualThoseOfSingleCalls() throws Exception {
    int[][] prompts = {sequence(0, 9), sequence(20, 13), sequence(0, 9)};
    int[] written = {9, 4, 9};
    long id = 0, hits = 0;
    try (Manager one = small(64); Manager many = small(64); Step s = admitting(many)) {
      RequestOptions[] singles = options(one), batch = options(many);
      for (int round = 0; round < 2; ++round) { // the second time with hits
        id = admit(s, id, prompts, batch);
        List<Request> made = new ArrayList<>();
        for (int i = 0; i < 3; ++i) {
          Request r = one.allocate(ManagerTest.direct(prompts[i]), singles[i]), other = many.request(s.admitted().get(i));
          made.add(r);
          made.add(other);
          hits += r.cached();
          assertEquals(0, s.status().get(i));
          assertEquals(r.cached(), s.cached().get(i));
          String ids = "namespaceId=-?\\d+"; // those of managers differ
          assertEquals(r.info().toString().replaceFirst(ids, ""), other.info().toString().replaceFirst(ids, ""));
          assertArrayEquals(r.blockTable(0), other.blockTable(0));
        }
        for (Request r : made) {
          r.commit(written[made.indexOf(r) / 2]);
          r.free();
        }
        many.retireStep(id);
      }
      assertEquals(12, hits);
      assertEquals(4, many.probe(0, ManagerTest.direct(prompts[0])));
      assertEquals(8, many.probe(0, ManagerTest.direct(prompts[0]), new ExtraKey(4, 2, new byte[32])));
      assertEquals(4, many.probe(0, ManagerTest.direct(prompts[1]), new ExtraKey(0, 4, new byte[32]), new ExtraKey(4, 3, new byte[32])));
    }
  }

  @Test
  void aBadConfigInTheMiddleChangesNothing() throws Exception {
    int[][] prompts = {sequence(0, 9), sequence(0, 9), sequence(0, 9)};
    try (Manager m = small(64); Step s = admitting(m)) {
      long digest = m.digest();
      for (RequestOptions bad : new RequestOptions[] {new RequestOptions().slots(1L << 40), new RequestOptions().flags(1 << 20)}) {
        assertThrows(KvCacheException.class, () -> admit(s, 0, prompts, new RequestOptions().lookahead(4), bad, null));
        assertEquals(digest, m.digest());
      }
      assertThrows(IllegalArgumentException.class, () -> admit(s, 0, prompts, null, null));
      assertThrows(IllegalArgumentException.class, () -> admit(s, 0, prompts, null, null, null, null));
      assertEquals(digest, m.digest());
      admit(s, 0, prompts, null, new RequestOptions().namespace(12345), null);
      assertEquals(0, s.status().get(0));
      assertEquals(4, s.status().get(1));
      assertEquals(0, s.status().get(2));
    }
  }

  @Test
  void aWaitingRequestKeepsWhatItWasCreatedWith() throws Exception {
    try (Manager m = small(64); Step s = admitting(m)) {
      Request waiting = m.create(ManagerTest.direct(sequence(0, 9)), new RequestOptions().lookahead(2));
      s.admitRequests().put(0, waiting.id());
      long id = admit(s, 0, new int[][] {{}}, new RequestOptions().lookahead(30));
      assertEquals(11, waiting.info().capacity());
      s.admitRequests().put(0, 0);
      admit(s, id, new int[][] {sequence(100, 5)});
      assertEquals(5, m.request(s.admitted().get(0)).info().capacity());
    }
  }

  @Test
  void admitSlotsAreThoseOfTheFirstChunk() throws Exception {
    try (Manager m = small(64); Step s = new Step(m, new Step.Limits(1, 1, 0, 16, 0, 2, 40)); Request waiting = m.create(sequence(100, 20), null)) {
      s.admitRequests().put(0, 0).put(1, waiting.id());
      s.admitOffsets().put(0, 0).put(1, 20).put(2, 20);
      s.admitTokens().put(0, sequence(0, 20));
      s.admitSlots().put(0, 6).put(1, 9);
      s.counts(0, 0, 2).run(0);
      assertEquals(List.of(0, 0, 2L, 3L, 0L), List.of(s.status().get(0), s.status().get(1), s.numBlocks().get(0), s.numBlocks().get(1), s.admitSlots().get(0)));
      assertEquals(6, m.request(s.admitted().get(0)).info().capacity());
      assertEquals(9, waiting.info().capacity());
      s.admitSlots().put(0, -1);
      assertTrue(assertThrows(KvCacheException.class, () -> s.counts(0, 0, 1).run(0)).getMessage().contains("admit_slots[0]"));
    }
  }
}
