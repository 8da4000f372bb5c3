// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import java.io.ByteArrayOutputStream;
import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.nio.LongBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * Metrics of managers, storages, tiers, offloads and schedulers: counters, gauges, latencies and memory. docs/METRICS.md lists all names.
 *
 * <pre>{@code
 * Metrics.render(List.of(new Metrics.Source(manager, Map.of("model", "llama"))), false); // for each scrape of /metrics
 * }</pre>
 *
 * <p>Reading changes nothing. Any thread may call it beside others.
 */
public final class Metrics extends MetricsCalls {
  /**
   * A Manager, Storage, Tier, Offload or Scheduler with its labels. Names are letters, digits and _; none that docs/METRICS.md has.
   *
   * @param object at most 64 of a kind
   */
  public record Source(AutoCloseable object, Map<String, String> labels) {}

  private interface Call {
    void run(long[][] objects) throws KvCacheException;
  }

  private Metrics() {}

  /**
   * Returns the metrics of objects as OpenMetrics text in UTF-8, for Prometheus: answer /metrics with it, as application/openmetrics-text; version=1.0.0;
   * charset=utf-8. No two objects of one kind may have the same labels. vllmNames: adds the names of vLLM for what has the same meaning there. Statuses:
   * INVALID_ARGUMENT (labels), OUT_OF_MEMORY.
   */
  public static byte[] render(List<Source> sources, boolean vllmNames) throws KvCacheException {
    List<Source> sorted = new ArrayList<>(sources);
    sorted.sort(Comparator.comparingInt(source -> kindOf(source.object)));
    ByteArrayOutputStream texts = new ByteArrayOutputStream();
    LongBuffer counts = Buffers.longs(sorted.size());
    List<AutoCloseable> objects = new ArrayList<>();
    for (Source source : sorted) {
      objects.add(source.object);
      counts.put(source.labels.size());
      source.labels.forEach((name, value) -> {
        text(texts, name);
        text(texts, value);
      });
    }
    counts.flip();
    ByteBuffer labels = Buffers.copy(texts.toByteArray());
    return Buffers.array(Buffers.grown(1, 1 << 16, (room, count) -> withObjects(objects,
        o -> Native.kvc_metrics_render(o[0], o[1], o[2], o[3], o[4], labels, counts, vllmNames ? 1 : 0, room, count))));
  }

  /**
   * Makes objects measure their calls until they are closed. Each latency takes 19 KiB. No result of a call depends on it. No other call on the objects may
   * run: do it right after their creation. Doing it twice changes nothing. Statuses: OUT_OF_MEMORY.
   */
  public static void enableLatencies(AutoCloseable... objects) throws KvCacheException {
    withObjects(List.of(objects), o -> Native.kvc_metrics_enable_latencies(o[0], o[1], o[2], o[3], o[4]));
  }

  /** Returns one latency of an object. Statuses: INVALID_ARGUMENT (it has no such latency), BUSY (not enabled). */
  public static LatencyInfo readLatency(AutoCloseable object, Latency latency) throws KvCacheException {
    try (kvc_latency i = new kvc_latency()) {
      withObjects(List.of(object), o -> Native.kvc_metrics_read_latency(o[0], o[1], o[2], o[3], o[4], latency.ordinal() + 1, i));
      return LatencyInfo.read(i);
    }
  }

  /** Returns the memory of objects by kind. */
  public static MemoryProfile readMemory(AutoCloseable... objects) throws KvCacheException {
    try (kvc_memory_profile p = new kvc_memory_profile()) {
      withObjects(List.of(objects), o -> Native.kvc_metrics_read_memory(o[0], o[1], o[2], o[3], o[4], p));
      return MemoryProfile.read(p);
    }
  }

  private static void text(ByteArrayOutputStream texts, String text) {
    if (text.indexOf(0) >= 0) {
      throw Sizes.invalid("a label has \"%s\"; it must have no zero character", text);
    }
    texts.writeBytes(text.getBytes(StandardCharsets.UTF_8));
    texts.write(0);
  }

  private static int kindOf(AutoCloseable object) {
    if (object instanceof Manager) {
      return 0;
    }
    if (object instanceof Storage) {
      return 1;
    }
    if (object instanceof Tier) {
      return 2;
    }
    if (object instanceof Offload) {
      return 3;
    }
    if (object instanceof Scheduler) {
      return 4;
    }
    throw Sizes.invalid("%s has no metrics; give a Manager, Storage, Tier, Offload or Scheduler", object.getClass().getSimpleName());
  }

  private static Handle handleOf(AutoCloseable object) {
    return switch (kindOf(object)) {
      case 0 -> ((Manager) object).handle;
      case 1 -> ((Storage) object).handle;
      case 2 -> ((Tier) object).jobs.handle;
      case 3 -> ((Offload) object).handle;
      default -> ((Scheduler) object).handle;
    };
  }

  /** Calls with the addresses of objects of each kind, in their order, which stay valid meanwhile. */
  private static void withObjects(List<AutoCloseable> objects, Call call) throws KvCacheException {
    List<Handle> entered = new ArrayList<>();
    List<Object> locks = new ArrayList<>();
    List<List<Long>> found = new ArrayList<>();
    for (int kind = 0; kind < 5; ++kind) {
      found.add(new ArrayList<>());
    }
    try {
      Map<Long, Object> offloads = new TreeMap<>(); // locked in one order, so that two calls never wait for each other
      for (AutoCloseable object : objects) {
        Handle handle = handleOf(object);
        long address = handle.enter();
        entered.add(handle);
        found.get(kindOf(object)).add(address);
        if (object instanceof Offload offload) {
          offloads.put(address, offload.one);
        }
      }
      locks.addAll(offloads.values());
      long[][] addresses = new long[5][];
      for (int kind = 0; kind < 5; ++kind) {
        addresses[kind] = found.get(kind).stream().mapToLong(Long::longValue).toArray();
      }
      locked(locks, 0, call, addresses);
    } finally {
      entered.forEach(Handle::exit);
      Reference.reachabilityFence(objects);
    }
  }

  private static void locked(List<Object> locks, int first, Call call, long[][] addresses) throws KvCacheException {
    if (first == locks.size()) {
      call.run(addresses);
      return;
    }
    synchronized (locks.get(first)) {
      locked(locks, first + 1, call, addresses);
    }
  }
}
