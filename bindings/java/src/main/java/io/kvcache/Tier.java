// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;

/**
 * A store of pages by key, in memory, on a disk or on a server, behind a queue of jobs: kvc_tier. Any thread may use it.
 *
 * <p>A job is a batch of pages. submitGet and so on enqueue it and return at once; the {@link Job} completes when it has ended. Until then the buffers of
 * a get are undefined, and those of a put must not change. The tier keeps buffers reachable, and lives itself, until its jobs have ended. get and so on
 * wait. Callbacks of jobs run in the tier's thread: what takes long belongs into thenApplyAsync and the like.
 *
 * <p>keys: 32 bytes for each page. pages: one direct buffer with equally many bytes for each page, or a list of direct buffers, used from position to
 * limit. A get of a page of another size is a MISS. What is read is checked by key, fingerprint and checksum; a page whose result is not OK has undefined
 * bytes.
 */
public final class Tier extends TierCalls implements AutoCloseable {
  static final int KEY = 32;

  /**
   * The end of a job; arrays have an entry for each page. results: numbers of {@link PageResult}. generations: of pages that were found or written.
   * leaseUntilNs: of exists: the page stays until then; 0 = nothing is promised.
   */
  public record Done(int numOk, int[] results, long[] generations, long[] leaseUntilNs) {
    /** What became of a page. */
    public PageResult result(int page) {
      return PageResult.of(results[page]);
    }
  }

  /** A job. It completes when it has ended, exceptionally only if the tier is closed before. To cancel it, use {@link Tier#cancel}. */
  public static final class Job extends CompletableFuture<Done> {
    final long number;

    Job(long number) {
      this.number = number;
    }
  }

  final TierJobs jobs;
  private final long pageBytes;
  private final boolean hasThreads;
  private final String url;

  /** Opens a tier for pages of up to pageBytes. fingerprint: 32 bytes, {@link Storage.PageInfo#fingerprint}; pages of another one are misses. */
  public Tier(String url, long pageBytes, byte[] fingerprint) throws KvCacheException {
    this(url, pageBytes, fingerprint, 0);
  }

  /** The same, with the bytes of puts that may wait; 0 = 1 GiB. */
  public Tier(String url, long pageBytes, byte[] fingerprint, long maxStoreBytes) throws KvCacheException {
    long[] out = new long[1];
    ByteBuffer print = digest("fingerprint", fingerprint);
    Native.kvc_tier_create(url, print, Sizes.count("pageBytes", pageBytes), Sizes.count("maxStoreBytes", maxStoreBytes), out);
    int wake = Native.kvc_wake_create();
    if (wake < 0) {
      Native.kvc_tier_destroy(out[0]);
      throw new KvCacheException(Native.KVC_ERROR_LIMIT, "no descriptor for an eventfd; close some");
    }
    TierJobs made = new TierJobs(out[0], wake);
    jobs = made;
    this.url = url;
    this.pageBytes = pageBytes;
    Manager.CLEANER.register(this, () -> made.close(false));
    boolean works = false;
    try {
      Native.kvc_tier_run_one(out[0], new long[1]);
    } catch (KvCacheException unsupported) {
      works = true;
    }
    hasThreads = works;
    Reference.reachabilityFence(this);
  }

  /** Opens a plug-in before a tier names it. path: its file, or the only folder to search; null = KVC_PLUGIN_PATH, then the folder of the library. */
  public static void openPlugin(String name, String path) throws KvCacheException {
    Native.kvc_plugin_open(name, path);
  }

  /**
   * What a file of a tier has: kvc_page_file_info.
   *
   * @param slab true: the file of a tier slab:; false: a page of a tier dir:
   * @param key of the page; of a slab zeros
   * @param pageBytes of the page; of a slab of the largest that fits
   * @param numSlots pages that a slab has room for; else 1
   * @param numPages pages with a whole header
   * @param badHeaders slots with something else, which are free
   * @param badPages with validate: pages whose checksum does not match, which are misses
   */
  public record FileInfo(boolean slab, int version, byte[] fingerprint, byte[] key, long fileBytes, long pageBytes, long numSlots, long numPages,
      long storedBytes, long badHeaders, long badPages) {}

  /**
   * Reads the headers of a file of a tier, and with validate all pages too. While a tier has a slab open, what it is just writing may be counted as bad.
   * Statuses: NOT_FOUND, UNSUPPORTED (neither a slab nor a page, or of a newer format), CORRUPT (the file's own header does not check).
   */
  public static FileInfo fileInfo(Path path, boolean validate) throws KvCacheException {
    try (kvc_page_file_info i = new kvc_page_file_info()) {
      Native.kvc_page_file_read_info(path.toString(), validate ? 1 : 0, i);
      return new FileInfo(i.getKind() == Native.KVC_PAGE_FILE_SLAB, i.getVersion(), i.getFingerprint(), i.getKey(), i.getFile_bytes(), i.getPage_bytes(),
          i.getNum_slots(), i.getNum_pages(), i.getStored_bytes(), i.getBad_headers(), i.getBad_pages());
    }
  }

  /** Returns the keys of the pages of a group, 32 bytes each. digests: of prefix positions, {@link Manager#positionDigests}. */
  public static ByteBuffer pageKeys(ByteBuffer digests, int group, byte[] fingerprint) throws KvCacheException {
    ByteBuffer keys = Buffers.bytes(KEY * count("digests", digests));
    Native.kvc_page_key(digests, Sizes.count("group", group), digest("fingerprint", fingerprint), keys);
    return keys;
  }

  /** Cancels what waits, waits for what runs, and frees the tier. Jobs that have not ended complete with an IllegalStateException. */
  @Override
  public void close() {
    jobs.close(true);
  }

  // ---- jobs

  /** Enqueues the question which pages are there; it may lease them. */
  public Job submitExists(ByteBuffer keys, JobOptions options) throws KvCacheException {
    return submit(Kind.EXISTS, JobOptions.Priority.LOAD, keys, null, options);
  }

  /** Enqueues reads of pages into a writable buffer. */
  public Job submitGet(ByteBuffer keys, ByteBuffer pages, JobOptions options) throws KvCacheException {
    return submit(Kind.GET, JobOptions.Priority.LOAD, keys, List.of(pages), options);
  }

  /** The same with a buffer for each page. */
  public Job submitGet(ByteBuffer keys, List<ByteBuffer> pages, JobOptions options) throws KvCacheException {
    return submit(Kind.GET, JobOptions.Priority.LOAD, keys, each(keys, pages), options);
  }

  /** Enqueues writes of pages. */
  public Job submitPut(ByteBuffer keys, ByteBuffer pages, JobOptions options) throws KvCacheException {
    return submit(Kind.PUT, JobOptions.Priority.STORE, keys, List.of(pages), options);
  }

  /** The same with a buffer for each page. */
  public Job submitPut(ByteBuffer keys, List<ByteBuffer> pages, JobOptions options) throws KvCacheException {
    return submit(Kind.PUT, JobOptions.Priority.STORE, keys, each(keys, pages), options);
  }

  /** Enqueues the removal of pages. */
  public Job submitRemove(ByteBuffer keys, JobOptions options) throws KvCacheException {
    return submit(Kind.REMOVE, JobOptions.Priority.STORE, keys, null, options);
  }

  /** Cancels the pages of a job that are not begun; it still completes. Returns false if there is no such job, or nothing of it waits. */
  public boolean cancel(Job job) throws KvCacheException {
    return jobs.cancel(job);
  }

  /** Asks which pages are there, and waits for the answer. An interrupt cancels the job. */
  public Done exists(ByteBuffer keys, JobOptions options) throws KvCacheException, InterruptedException {
    return await(submitExists(keys, options));
  }

  /** Reads pages, and waits for the end. */
  public Done get(ByteBuffer keys, ByteBuffer pages, JobOptions options) throws KvCacheException, InterruptedException {
    return await(submitGet(keys, pages, options));
  }

  /** Writes pages, and waits for the end. */
  public Done put(ByteBuffer keys, ByteBuffer pages, JobOptions options) throws KvCacheException, InterruptedException {
    return await(submitPut(keys, pages, options));
  }

  /** Forgets pages, and waits for the end. */
  public Done remove(ByteBuffer keys, JobOptions options) throws KvCacheException, InterruptedException {
    return await(submitRemove(keys, options));
  }

  /** Waits for the end of a job. With threads=0 in the URL it does the work. */
  public Done await(Job job) throws KvCacheException, InterruptedException {
    jobs.notInCallback();
    try {
      if (!hasThreads && !job.isDone()) {
        drain();
      }
      return job.get();
    } catch (ExecutionException error) {
      throw error.getCause() instanceof IllegalStateException closed ? closed : new IllegalStateException(error.getCause());
    } catch (InterruptedException interrupt) {
      cancel(job);
      throw interrupt;
    }
  }

  /** Waits until nothing waits or runs; with threads=0 in the URL it does the work. */
  public void drain() throws KvCacheException {
    jobs.own();
    call(Native::kvc_tier_drain);
  }

  /** With threads=0 in the URL: does the next page, or batch of pages. Returns false if nothing waits. */
  public boolean runOne() throws KvCacheException {
    long[] done = new long[1];
    jobs.own();
    call(t -> Native.kvc_tier_run_one(t, done));
    return done[0] != 0;
  }

  // ---- counters

  @Override
  public String toString() {
    try {
      jobs.handle.check();
    } catch (IllegalStateException closed) {
      return "Tier[closed]";
    }
    return "Tier[" + url + ", pages of " + pageBytes + " bytes, " + jobs.size() + " jobs]";
  }

  // ---- inner workings

  @Override
  void call(Manager.Call call) throws KvCacheException {
    jobs.handle.call(this, call);
  }

  private Job submit(Kind kind, JobOptions.Priority usual, ByteBuffer keys, List<ByteBuffer> pages, JobOptions given) throws KvCacheException {
    JobOptions options = given == null ? new JobOptions() : given;
    int number = count("keys", keys);
    ByteBuffer items = Buffers.bytes(Math.multiplyExact(TierJobs.ITEM, number));
    for (int i = 0; i < number; ++i) {
      items.put(TierJobs.ITEM * i, keys, keys.position() + KEY * i, KEY);
    }
    Object[] memory = {pages, null};
    if (pages != null) {
      long least = fill(items, number, pages, kind == Kind.GET);
      if (kind == Kind.GET) {
        memory[1] = restrict(items, number, options, least);
      }
    }
    try {
      return jobs.submit(this, kind.ordinal(), options.priority == null ? usual : options.priority, items, options, memory);
    } finally {
      Reference.reachabilityFence(this);
    }
  }

  /** Sets data and bytes of the items. Returns the bytes of the smallest page. */
  private static long fill(ByteBuffer items, int number, List<ByteBuffer> pages, boolean written) {
    boolean one = pages.size() == 1;
    long least = Long.MAX_VALUE, address = 0, row = 0;
    for (int i = 0; i < number; ++i) {
      if (i == 0 || !one) {
        ByteBuffer page = written ? Buffers.writable(pages.get(i)) : Buffers.readable(pages.get(i));
        if (one && page.remaining() % number != 0) {
          throw Sizes.invalid("pages has %d bytes; it needs equally many for each of the %d keys", page.remaining(), number);
        }
        address = Native.kvc_bytes_address(page);
        row = one ? page.remaining() / number : page.remaining();
      } else {
        address += row;
      }
      items.putLong(TierJobs.ITEM * i + TierJobs.DATA, address).putLong(TierJobs.ITEM * i + TierJobs.BYTES, row);
      least = Math.min(least, row);
    }
    return least;
  }

  /** Sets runs and generations of the items. Returns the memory of the runs. */
  private Object restrict(ByteBuffer items, int number, JobOptions options, long least) {
    long[] generations = options.generations;
    if (generations != null && generations.length != number) {
      throw Sizes.invalid("generations has %d numbers; it needs %d", generations.length, number);
    }
    long address = 0;
    if (options.runs != null) {
      long needed = 0;
      for (int i = 1; i < options.runs.limit(); i += 2) {
        long bytes = options.runs.get(i);
        needed = bytes < 0 || needed + bytes < 0 ? Long.MAX_VALUE : needed + bytes;
      }
      if (needed > least) {
        throw Sizes.invalid("pages has %d bytes for a page; the runs have %d", least, needed);
      }
      address = Native.kvc_longs_address(options.runs);
    }
    for (int i = 0; i < number; ++i) {
      int item = TierJobs.ITEM * i;
      if (generations != null) {
        items.putLong(item + TierJobs.GENERATION, generations[i]);
      }
      if (options.runs != null) {
        items.putLong(item + TierJobs.BYTES, options.pageBytes != 0 ? options.pageBytes : pageBytes);
        items.putLong(item + TierJobs.RUNS, address).putLong(item + TierJobs.NUM_RUNS, options.runs.limit() / 2);
      }
    }
    return options.runs;
  }

  private static List<ByteBuffer> each(ByteBuffer keys, List<ByteBuffer> pages) {
    List<ByteBuffer> own = List.copyOf(pages);
    if (own.size() != count("keys", keys)) {
      throw Sizes.invalid("pages has %d buffers; it needs one for each of the %d keys", own.size(), count("keys", keys));
    }
    return own;
  }

  private static int count(String name, ByteBuffer keys) {
    if (keys.remaining() % KEY != 0) {
      throw Sizes.invalid("%s has %d bytes; it needs a multiple of %d", name, keys.remaining(), KEY);
    }
    return keys.remaining() / KEY;
  }

  private static ByteBuffer digest(String name, byte[] digest) {
    if (digest.length != KEY) {
      throw Sizes.invalid("%s has %d bytes; it needs %d", name, digest.length, KEY);
    }
    return Buffers.copy(digest).order(ByteOrder.nativeOrder());
  }
}
