// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import static io.kvcache.ManagerTest.sequence;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.Test;

/** A publisher gives batches of what a manager has. */
class PublisherTest {
  @Test
  void givesBatches() throws Exception {
    Manager m = new Manager(new Config().numBlocks(16).blockSize(4).eventCapacity(64));
    try (Publisher p = new Publisher(m, new Publisher.Config().medium("CPU"))) {
      assertEquals(1, p.poll());
      try (Request request = m.allocate(sequence(0, 8))) {
        request.commit(8);
      }
      assertEquals(1, p.poll());
      Publisher.Batch batch = p.read(1);
      assertEquals(1, batch.sequence());
      String text = new String(batch.payload(), StandardCharsets.ISO_8859_1);
      assertTrue(text.contains("BlockStored") && text.contains("CPU"), text);
      assertNull(p.read(2));
      p.nameNamespace(0, "sql", null, null);
      p.resync();
      assertEquals(1, p.poll());
      assertEquals(4, p.stats().storedBlocks());
      assertEquals(2, p.stats().resyncs());
      m.close(); // the publisher keeps it alive
      assertEquals(0, p.poll());
    }
  }

  @Test
  void refusesWithAText() throws Exception {
    try (Manager m = new Manager(new Config().numBlocks(16).blockSize(4))) {
      KvCacheException error = assertThrows(KvCacheException.class, () -> new Publisher(m, null));
      assertTrue(error.getMessage().contains("event_capacity"), error.getMessage());
    }
  }
}
