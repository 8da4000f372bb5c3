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
public final class Metrics {
  /**
   * What a latency measures. Of a Manager: ADMIT (allocate and Request.admit), STEP. Of a Scheduler: PLAN, with the steps of its manager, and FINISH. Of a
   * Storage: STORE and GATHER; with a stream, until the work is enqueued. Of an Offload: POLL; LOAD, from the first page of a load until its blocks are
   * cached, by the times of poll. Of a Tier: the others, from the submission of a job to its end.
   */
  public enum Latency { ADMIT, STEP, PLAN, FINISH, STORE, GATHER, POLL, LOAD, TIER_EXISTS, TIER_GET, TIER_PUT, TIER_REMOVE }

  /**
   * A Manager, Storage, Tier, Offload or Scheduler with its labels. Names are letters, digits and _; none that docs/METRICS.md has.
   *
   * @param object at most 64 of a kind
   */
  public record Source(AutoCloseable object, Map<String, String> labels) {}

  /** A distribution of durations since {@link #enableLatencies}, in ns: kvc_latency. Percentiles are within 0.8 %. */
  public record LatencyInfo(long count, long sumNs, long maxNs, long p50Ns, long p90Ns, long p99Ns, long p999Ns) {}

  /** Memory by kind, in bytes: what objects have from their allocators now, and the most that they have had: kvc_memory_profile. */
  public record MemoryProfile(long metadataBytes, long metadataPeakBytes, long slabBytes, long slabPeakBytes, long workspaceBytes, long workspacePeakBytes,
      long tierBytes, long tierPeakBytes, long offloadBytes, long offloadPeakBytes, long schedulerBytes, long schedulerPeakBytes) {}

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
    for (int size = 1 << 16;; size = Math.multiplyExact(size, 4)) {
      ByteBuffer room = Buffers.bytes(size);
      long[] count = new long[1];
      try {
        withObjects(objects, o -> Native.kvc_metrics_render(o[0], o[1], o[2], o[3], o[4], labels, counts, vllmNames ? 1 : 0, room, count));
      } catch (KvCacheException error) {
        if (error.status() != Native.KVC_ERROR_BUFFER_TOO_SMALL) {
          throw error;
        }
        continue;
      }
      byte[] all = new byte[(int) count[0]];
      room.get(all);
      return all;
    }
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
      return new LatencyInfo(i.getCount(), i.getSum_ns(), i.getMax_ns(), i.getP50_ns(), i.getP90_ns(), i.getP99_ns(), i.getP999_ns());
    }
  }

  /** Returns the memory of objects by kind. */
  public static MemoryProfile readMemory(AutoCloseable... objects) throws KvCacheException {
    try (kvc_memory_profile p = new kvc_memory_profile()) {
      withObjects(List.of(objects), o -> Native.kvc_metrics_read_memory(o[0], o[1], o[2], o[3], o[4], p));
      return new MemoryProfile(p.getMetadata_bytes(), p.getMetadata_peak_bytes(), p.getSlab_bytes(), p.getSlab_peak_bytes(), p.getWorkspace_bytes(),
          p.getWorkspace_peak_bytes(), p.getTier_bytes(), p.getTier_peak_bytes(), p.getOffload_bytes(), p.getOffload_peak_bytes(), p.getScheduler_bytes(),
          p.getScheduler_peak_bytes());
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
