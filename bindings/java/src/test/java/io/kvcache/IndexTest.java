// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** An index that follows the events of managers says what they have. */
class IndexTest {
  private static final int[] PROMPT = IntStream.range(0, 64).toArray();

  private static Manager served(int... tokens) throws Exception {
    Manager manager = new Manager(new Config().numBlocks(64).blockSize(16).eventCapacity(100));
    try (Request request = manager.allocate(tokens)) {
      request.commit(tokens.length);
    }
    return manager;
  }

  @Test
  void itHasWhatTheManagersHave() throws Exception {
    try (Manager one = served(PROMPT); Manager other = served(IntStream.range(0, 32).toArray());
        Index index = new Index(new Index.Options(0, 0, 2, 0, 0, 10, false)); Index copy = new Index(new Index.Options(0, 0, 2, 0, 0, 0, false))) {
      index.addWorker(7, "engine", 3);
      index.addWorker(9, null, 3);
      Index.Applied applied = index.apply(7, 0, one.events(0).events(), 0);
      assertEquals(4, applied.applied());
      assertFalse(applied.isStale());
      index.apply(9, 1, other.events(0).events(), 0);
      assertEquals(one.positionDigests(0, Buffers.of(PROMPT)), Index.prefixDigests(null, Buffers.of(PROMPT), 16));
      List<Index.Match> matches = index.matchTokens(null, Buffers.of(PROMPT), 16);
      assertEquals(2, matches.size());
      for (Index.Match match : matches) {
        assertEquals(match.worker() == 7 ? 4 : 2, match.blocks());
        assertArrayEquals(match.worker() == 7 ? new int[] {4, 0} : new int[] {0, 2}, match.media());
      }
      assertEquals(2, index.match(one.positionDigests(0, Buffers.of(PROMPT))).size());
      Index.Worker worker = index.worker(7);
      assertEquals("engine", worker.name());
      assertArrayEquals(new long[] {4, 0}, worker.numBlocks());
      assertArrayEquals(new long[] {4, 0}, worker.nextSequence());
      byte[] dump = index.dump();
      copy.load(dump);
      assertArrayEquals(dump, copy.dump());
      assertThrows(KvCacheException.class, () -> copy.load(dump));
      index.touchWorker(9, 12);
      assertEquals(1, index.expire(15));
      assertEquals(List.of(9L), index.workers());
      assertEquals(1, index.stats().expiredWorkers());
    }
  }

  @Test
  void aGapIsMendedByAList() throws Exception {
    try (Manager manager = served(PROMPT); Index index = new Index(new Index.Options())) {
      index.addWorker(1, null, 0);
      assertTrue(index.apply(1, 0, manager.events(2).events(), 0).isStale());
      index.beginResync(1, Index.ALL_MEDIA);
      long[] cursor = new long[1];
      index.apply(1, 0, manager.prefixes(0, cursor).events(), 0);
      index.endResync(1, Index.ALL_MEDIA, cursor[0]);
      assertFalse(index.worker(1).isStale()[0]);
      assertEquals(4, index.matchTokens(null, Buffers.of(PROMPT), 16).get(0).blocks());
      assertEquals(0, index.matchTokens(Index.namespaceRoot(null, null, new byte[] {1}), Buffers.of(PROMPT), 16).size());
      index.removeWorker(1);
      assertThrows(KvCacheException.class, () -> index.worker(1));
    }
  }
}
