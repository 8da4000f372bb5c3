// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.IntBuffer;
import java.nio.LongBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** A call of every public method and constructor, by name. */
final class FuzzCalls {
  private static final String CONFIG = "{\"model_type\": \"llama\", \"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"hidden_size\": 64, "
      + "\"vocab_size\": 100, \"max_position_embeddings\": 128}";

  static final String SHORTFIN = "{\"module_name\": \"module\", \"max_seq_len\": 8192, \"attn_head_dim\": 64, \"transformer_block_count\": 6, \"top_k\": null, "
      + "\"paged_kv_cache\": {\"attention_head_count_kv\": 4, \"block_seq_stride\": 16, \"device_block_count\": 128, \"kv_cache_dtype\": \"bfloat16\", "
      + "\"paged_kv_block_size_elements_per_device\": [32768, 16384]}}";

  interface Call {
    void run() throws Exception;
  }

  final Map<String, Call> table = new TreeMap<>();
  private final Hostile h;
  Manager manager;
  private Manager closedManager;
  private Storage storage, closedStorage;
  private Stream stream, closedStream;
  private StreamEvent event, closedEvent;
  private Step step, closedStep;
  private Tier tier, closedTier, offloadTier;
  private Offload offload, closedOffload; // closed, if the manager has no events
  private final Path folder; // of checkpoints
  private boolean latent;
  private int vDim;
  private final List<Request> requests = new ArrayList<>();
  private final List<Long> pins = new ArrayList<>(), namespaces = new ArrayList<>();

  FuzzCalls(Hostile hostile, Path folder) throws Exception {
    h = hostile;
    this.folder = folder;
    while (offload == null) {
      renew();
    }
    closedOffload = offload;
    closedManager = manager;
    closedStorage = storage;
    closedStream = stream;
    closedEvent = event;
    closedStep = step;
    closedTier = tier;
    manager = null;
    closeAll(offload, offloadTier, closedTier, closedStep, closedManager, closedStorage, closedStream, closedEvent);
    renew();
    addManager();
    addRequest();
    addStep();
    addStorage();
    addFunctions();
    addSizing();
    addIndex();
    addPublisher();
    addTiers();
    addOffload();
    addCheckpoints();
    addSpeculation();
    addScheduler();
    addBuilders();
  }

  private static void closeAll(AutoCloseable... objects) throws Exception {
    for (AutoCloseable object : objects) {
      object.close();
    }
  }

  void close() throws Exception {
    closeAll(tier, stream, step, storage, event, manager, offloadTier); // the offload keeps what it uses
    if (offload != null) {
      offload.close();
    }
  }

  /** Makes the objects that calls go to, in some shape. */
  void renew() throws Exception {
    if (manager != null) {
      close();
    }
    requests.clear();
    pins.clear();
    namespaces.clear();
    Config config = new Config().numBlocks(12).blockSize(4).maxRequests(8).maxRequestTokens(64).eventCapacity(h.oneOf(0, 8)).vocabSize((int) h.oneOf(0, 100));
    if (h.rarely(2)) {
      config.groups(new Config.Group(), new Config.Group(h.oneOf(2, 5, 9), h.random.nextInt(3), 0, 0));
    }
    if (h.rarely(3)) {
      config.zeroCrossNamespace();
    }
    if (!h.rarely(4)) {
      config.hints();
    }
    if (!h.rarely(4)) {
      config.headroom();
    }
    if (!h.rarely(2)) {
      config.partialReuse();
    }
    config.maxBlocks(h.oneOf(12, 18)).maxQuotas((int) h.oneOf(0, 2, 2));
    config.recordBytes(h.oneOf(0, 65536));
    if (!h.rarely(4)) {
      config.fills();
    }
    manager = new Manager(config);
    step = new Step(manager, new Step.Limits(3, 8, 5, 16, 2, 2, 24));
    latent = h.rarely(4);
    vDim = latent ? 6 : (int) h.oneOf(8, 6);
    StorageConfig shape = new StorageConfig(12, 2, latent ? 1 : 2, 8).blockSize(4).dtype(DType.FLOAT32).valueDim(vDim);
    storage = new Storage(latent ? shape.flags(StorageConfig.LATENT) : shape.dtype(h.rarely(2) ? DType.FLOAT32 : DType.INT8));
    stream = new Stream();
    event = new StreamEvent();
    tier = new Tier("memory:?bytes=64KiB", 64, TierTest.FINGERPRINT);
    Storage.PageInfo info = storage.pageInfo(PAGES);
    offloadTier = new Tier("memory:?bytes=64KiB", info.pageBytes(), info.fingerprint());
    try {
      offload = new Offload(manager, groups(), List.of(offloadTier), PAGES, new OffloadOptions().policy(h.random.nextInt(8)).numPages(4));
    } catch (KvCacheException noEvents) {
      offload = closedOffload;
    }
  }

  private static final PageConfig PAGES = new PageConfig(new byte[] {'m'}, new byte[] {'w'});

  private List<Storage> groups() throws KvCacheException {
    return Collections.nCopies(manager.numGroups(), storage);
  }

  Offload o() {
    return h.rarely(50) ? closedOffload : offload;
  }

  OffloadOptions offloadOptions() {
    OffloadOptions options = new OffloadOptions().policy((int) h.oneOf(0, 7, h.number())).numPages((int) h.oneOf(0, 4, 8, h.number() & 0xffff));
    options.cleanBlocks((int) h.oneOf(0, 3, h.number())).timeoutNs(h.oneOf(0, h.number())).holdNs(h.oneOf(0, h.number())).promote(h.rarely(2));
    options.minLoadTokens(h.oneOf(0, h.number())).retryNs(h.oneOf(0, h.number()));
    options.lookups((int) h.oneOf(0, 3), (int) h.oneOf(0, 3)).computeNsPerToken(h.rarely(9) ? Double.NaN : h.small(3));
    return h.rarely(4) ? options.pageSizes(h.number(), 64) : options;
  }

  private void addOffload() {
    table.put("Offload.new", () -> {
      Storage.PageInfo info = storage.pageInfo(PAGES);
      try (Tier own = new Tier("memory:?bytes=64KiB", info.pageBytes(), info.fingerprint())) {
        List<Storage> storages = h.rarely(6) ? List.of(s(), s()) : h.rarely(9) ? null : groups();
        List<Tier> tiers = h.rarely(9) ? List.of(own, own) : h.rarely(9) ? List.of() : h.rarely(9) ? List.of(own, offloadTier) : List.of(own);
        PageConfig pages = h.rarely(6) ? pageConfig() : PAGES;
        OffloadOptions options = h.rarely(3) ? null : offloadOptions();
        new Offload(manager, storages, tiers, pages, options).close();
      }
    });
    table.put("Offload.await", () -> o().await((int) h.oneOf(0, 0, 1, -1, Integer.MIN_VALUE)));
  }

  CheckpointOptions checkpointOptions() {
    CheckpointOptions options = new CheckpointOptions().sync(false).keepLast((int) h.oneOf(1, 1, 2, 3, h.number()));
    options.requests(h.rarely(2)).full(h.rarely(6)).increment(h.rarely(6)).bytesElsewhere(h.rarely(6)).id(h.rarely(9) ? h.number() : 0);
    options.every(h.rarely(9) ? h.number() : 0, h.rarely(9) ? h.number() : 0, h.rarely(9) ? h.number() : 0);
    return h.rarely(9) ? options.codec(new String[] {"none", "absent", "a b", "", null}[h.random.nextInt(5)], h.integer()) : options;
  }

  Path folder() {
    return h.rarely(9) ? Path.of(new String[] {"", "/nowhere/at/all", "/proc/self/mem"}[h.random.nextInt(3)]) : folder;
  }

  private void addCheckpoints() {
    table.put("Checkpoint.save", () -> {
      List<Storage> storages = h.rarely(4) ? Arrays.asList(s(), null) : groups();
      Checkpoint.save(m(), storages, folder(), h.rarely(9) ? pageConfig() : PAGES, h.rarely(9) ? null : checkpointOptions());
    });
    table.put("Checkpoint.restore", () -> {
      Config config = new Config().numBlocks(12).blockSize(4).maxRequestTokens(64).hints();
      List<Storage> none = Arrays.asList((Storage) null);
      try (Manager saved = new Manager(config); Manager fresh = new Manager(config)) {
        Path from = h.rarely(2) ? folder() : folder.resolveSibling("restored");
        if (!Files.exists(from)) {
          Checkpoint.save(saved, none, from, PAGES, new CheckpointOptions().sync(false).bytesElsewhere(true));
        }
        Checkpoint.restore(fresh, none, from, PAGES, checkpointOptions().bytesElsewhere(true));
      }
    });
    table.put("Checkpoint.remove", () -> {
      long[] ids = Checkpoint.list(folder());
      Checkpoint.remove(folder, ids.length == 0 ? h.number() : h.oneOf(ids[0], ids[0], h.number()));
    });
    table.put("Checkpoint.compact", () -> Checkpoint.compact(folder(), h.rarely(9) ? null : checkpointOptions()));
    table.put("Tier.fileInfo", () -> {
      Path slab = folder.resolveSibling("slab");
      if (!Files.exists(slab)) {
        new Tier("slab:" + slab + "?bytes=64KiB", 64, TierTest.FINGERPRINT).close();
      }
      Tier.fileInfo(h.rarely(2) ? slab : folder(), h.rarely(2));
    });
  }

  AutoCloseable closed(Class<?> type) {
    for (AutoCloseable object : new AutoCloseable[] {closedManager, closedStep, closedStorage, closedStream, closedEvent, closedTier, closedOffload}) {
      if (type.isInstance(object)) {
        return object;
      }
    }
    throw new AssertionError(type);
  }

  StreamEvent event() {
    return h.rarely(8) ? closedEvent : event;
  }

  Manager m() {
    return h.rarely(200) ? closedManager : manager;
  }

  Storage s() {
    return h.rarely(200) ? closedStorage : storage;
  }

  Stream stream() {
    return h.rarely(3) ? stream : h.rarely(100) ? closedStream : null;
  }

  Request request() {
    return requests.isEmpty() || h.rarely(12) ? manager.request(h.number()) : requests.get(h.random.nextInt(requests.size()));
  }

  void keep(Request request) {
    requests.add(request);
  }

  IntBuffer prompt() {
    int kind = h.random.nextInt(3);
    return h.ints(h.random.nextInt(24), () -> h.rarely(200) ? h.number() : kind);
  }

  int[] tokens() {
    return new int[h.random.nextInt(24)];
  }

  long namespace() {
    return !h.rarely(3) ? 0 : namespaces.isEmpty() ? h.number() : namespaces.get(h.random.nextInt(namespaces.size()));
  }

  RequestOptions.ExtraKey[] keys() {
    RequestOptions.ExtraKey[] keys = new RequestOptions.ExtraKey[h.rarely(3) ? h.random.nextInt(3) : 0];
    for (int i = 0; i < keys.length; ++i) {
      keys[i] = new RequestOptions.ExtraKey(h.small(8), h.small(4), new byte[h.rarely(20) ? 31 : 32]);
    }
    return keys;
  }

  RequestOptions options() {
    return h.rarely(2) ? null
        : new RequestOptions().namespace(namespace()).slots(h.small(9)).lookahead(h.small(4)).keys(keys()).flags((int) h.oneOf(0, 0, h.number()));
  }

  IntBuffer blocks() {
    return h.ints(h.random.nextInt(4), () -> h.small(12));
  }

  private void addManager() {
    table.put("Manager.new", () -> {
      try (Manager made = h.rarely(2) ? new Manager(h.oneOf(0, 1, 4, -1, 1L << 40)) : new Manager((Config) built(new Config().numBlocks(4)))) {
        made.check();
      }
    });
    table.put("Manager.admitBatch", () -> {
      LongBuffer ids = h.longs(h.random.nextInt(4), () -> request().id());
      m().admitBatch(ids, h.random.nextBoolean() ? null : h.ints(ids == null ? 1 : ids.remaining(), () -> 0));
    });
    table.put("Manager.exportTables", () -> {
      LongBuffer ids = h.longs(h.random.nextInt(3), () -> request().id());
      m().exportTables(ids, (int) h.small(2), h.integer(), h.ints((ids == null ? 1 : ids.remaining()) * 16, () -> 0));
    });
    table.put("Manager.resize", () -> m().resize((int) h.small(2), h.rarely(8) ? h.oneOf(h.small(20), h.number()) : 10 + h.small(9)));
    table.put("Manager.rebuild", () -> {
      try (Manager fresh = new Manager(new Config().numBlocks(4).blockSize(4))) {
        Manager from = h.rarely(2) ? m() : fresh; // which mostly has requests
        try (Manager made = from.rebuild(new Config().numBlocks(h.oneOf(0, 4, 8, 1L << 40)).blockSize((int) h.oneOf(0, 1, 6, 1024, 2000))).manager()) {
          made.check();
        }
      }
    });
    table.put("Manager.openNamespace", () -> namespaces.add(m().openNamespace(part(), part(), part())));
    table.put("Manager.openCurve", () -> m().openCurve(namespace(), h.rarely(4) ? null
        : new Manager.CurveConfig(h.rarely(4) ? Double.NaN : h.oneOf(-1, 0, 1) / 2.0, h.oneOf(0, 1, 64, 1L << 40), h.oneOf(0, 1, 64, 1L << 40), h.number())));
    table.put("Manager.pin", () -> pins.add(m().pin(namespace(), prompt(), keys())));
    table.put("Manager.unpin", () -> {
      if (!pins.isEmpty() || h.rarely(2)) {
        m().unpin(pins.isEmpty() ? h.number() : pins.get(h.random.nextInt(pins.size())));
        return;
      }
      IntBuffer eight = ByteBuffer.allocateDirect(32).order(ByteOrder.nativeOrder()).asIntBuffer();
      try (Manager own = new Manager(new Config().numBlocks(4).blockSize(4).maxRequestTokens(8)); Request r = own.allocate(eight, null)) {
        r.commit(8);
        own.unpin(own.pin(0, eight));
      }
    });
    table.put("Manager.replayLog", () -> {
      byte[] log = m().takeLog();
      if (log.length != 0) {
        log[(int) h.small(log.length - 1)] ^= h.rarely(2) ? 1 : 0; // whole, it is a log if it is the first part
        Manager.replayLog(log);
      }
    });
  }

  String name() {
    return new String[] {"a", "b", "", "a\0b", "n".repeat(h.random.nextInt(300)), null}[h.random.nextInt(6)];
  }

  byte[] part() {
    return h.rarely(3) ? null : new byte[h.random.nextInt(3) * (h.rarely(4) ? 30000 : 1)];
  }

  private String text(String known) {
    return h.rarely(2) ? known : new String[] {null, "", "none", "\u0000", "\ud800", "x".repeat(4096)}[h.random.nextInt(6)];
  }

  private void addRequest() {
    table.put("Request.commit", () -> {
      Request request = request();
      long known = requests.contains(request) && manager.requests().contains(request.id()) ? request.info().numTokens() : 0;
      request.commit(h.oneOf(known, known, h.number()));
    });
  }

  private static final int[] OPTIONAL = {Step.COMMITTED, Step.COMMIT_OFFSETS, Step.EXTEND_OFFSETS, Step.EXTEND_TOKENS, Step.ADMIT_REQUESTS, Step.ROWS,
      Step.BLOCK_TABLES, Step.SLOTS, Step.CHANGES};

  Step step() {
    return h.rarely(40) ? closedStep : step;
  }

  /** Fills the step's arrays: mostly right, with one that is not. */
  private RequestOptions[] fill() throws KvCacheException {
    for (int array : OPTIONAL) {
      step.use(array, true);
    }
    for (int i = 0; i < step.rows().capacity(); ++i) {
      step.rows().put(i, i);
    }
    for (LongBuffer ids : new LongBuffer[] {step.frees(), step.preempts(), step.truncates(), step.requests(), step.admitRequests()}) {
      for (int i = 0; i < ids.capacity(); ++i) {
        ids.put(i, h.rarely(4) ? 0 : request().id());
      }
    }
    for (LongBuffer offsets : new LongBuffer[] {step.commitOffsets(), step.extendOffsets(), step.admitOffsets()}) {
      for (int i = 0, sum = 0; i < offsets.capacity(); ++i, sum += h.random.nextInt(3)) {
        offsets.put(i, sum);
      }
    }
    for (IntBuffer tokens : new IntBuffer[] {step.commitTokens(), step.extendTokens(), step.admitTokens()}) {
      for (int i = 0; i < tokens.capacity(); ++i) {
        tokens.put(i, 0);
      }
    }
    List<Long> alive = manager.requests();
    for (int i = 0; i < step.requests().capacity(); ++i) {
      long id = step.requests().get(i);
      step.committed().put(i, alive.contains(id) ? manager.request(id).info().numCommitted() : 0);
    }
    int admissions = h.random.nextInt(3);
    step.flags(h.rarely(20) ? h.integer() : h.random.nextInt(4)).fillId(h.integer());
    step.counts(h.random.nextInt(4), h.random.nextInt(2), h.random.nextInt(2), h.random.nextInt(2), admissions);
    LongBuffer[] lists = {step.frees(), step.truncateLengths(), step.requests(), step.committed(), step.extendOffsets(), step.admitRequests(), step.admitOffsets()};
    IntBuffer[] tokens = {step.commitTokens(), step.extendTokens(), step.admitTokens(), step.rows()};
    switch (h.random.nextInt(10)) {
      case 0, 1 -> {
        LongBuffer list = lists[h.random.nextInt(lists.length)];
        list.put(h.random.nextInt(list.capacity()), h.number());
      }
      case 2 -> {
        IntBuffer list = tokens[h.random.nextInt(tokens.length)];
        list.put(h.random.nextInt(list.capacity()), h.integer());
      }
      case 3 -> step.counts(h.integer(), h.integer(), h.integer(), h.integer(), admissions);
      case 4 -> step.use(OPTIONAL[h.random.nextInt(OPTIONAL.length)], false);
      default -> { }
    }
    RequestOptions[] options = new RequestOptions[h.rarely(3) ? admissions : h.rarely(8) ? h.random.nextInt(4) : 0];
    for (int i = 0; i < options.length; ++i) {
      options[i] = options();
    }
    return options;
  }

  private void addStep() {
    table.put("Step.new", () -> {
      long[] limits = new long[7];
      for (int i = 0; i < limits.length; ++i) {
        limits[i] = h.oneOf(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, -1, Long.MIN_VALUE, 1L << 62, 1L << 61);
      }
      new Step(m(), new Step.Limits(limits[0], limits[1], limits[2], limits[3], limits[4], limits[5], limits[6])).close();
    });
    table.put("Step.use", () -> {
      int array = (int) h.small(22);
      step().use(array, false);
      step().use(array, true);
    });
    table.put("Step.counts", () -> {
      if (h.rarely(2)) {
        step().counts(h.integer(), h.integer(), h.integer());
      } else {
        step().counts(h.integer(), h.integer(), h.integer(), h.integer(), h.integer());
      }
    });
    table.put("Step.run", () -> {
      RequestOptions[] options = fill();
      step().run(h.oneOf(0, 0, h.number()), options);
      for (int i = 0; i < step.admitted().capacity(); ++i) {
        keep(manager.request(step.admitted().get(i)));
      }
    });
  }

  DType dtype() {
    return h.rarely(12) ? DType.values()[h.random.nextInt(DType.values().length)] : h.rarely(3) ? DType.BFLOAT16 : DType.FLOAT32;
  }

  /** Right, but for what the generator of buffers makes of it, and one change. Work in flight may write to memory that its offsets now get. */
  /** One of three ways, or more, or none. */
  private BlockChoice blockChoice() {
    double[] some = {0, 0.5, 1, 6, -1, Double.NaN, Double.POSITIVE_INFINITY};
    double ratio = h.rarely(3) ? some[h.random.nextInt(some.length)] : 0, threshold = h.rarely(3) ? some[h.random.nextInt(some.length)] : 0;
    return new BlockChoice(ratio != 0 || threshold != 0 ? h.oneOf(0, 0, 1) : h.small(5), ratio, threshold, h.small(3), h.small(3));
  }

  Attention attention() throws KvCacheException {
    stream.sync();
    int count = h.random.nextInt(4), heads = latent ? 1 : 2;
    long[] offsets = new long[count + 1], lengths = new long[count], bits = new long[count], starts = new long[count];
    long bit = 0;
    for (int r = 0; r < count; ++r) {
      lengths[r] = 1 + h.random.nextInt(16);
      offsets[r + 1] = offsets[r] + h.random.nextInt((int) lengths[r] % 4 + 1);
      bits[r] = bit;
      starts[r] = lengths[r] / 2;
      bit += (offsets[r + 1] - offsets[r]) * (lengths[r] - starts[r]);
    }
    Attention a = new Attention();
    a.numQHeads = heads * (1 + h.random.nextInt(2));
    int rows = (int) offsets[count] * a.numQHeads;
    long[][] lists = {offsets, lengths, bits, starts};
    long[] list = lists[h.random.nextInt(4)];
    if (list.length > 0 && h.rarely(5)) {
      list[h.random.nextInt(list.length)] = h.number();
    }
    if (count > 0 && h.rarely(5)) { // with so many bits more, none
      bits[h.random.nextInt(count)] = h.oneOf(-1, -8, -64, Long.MIN_VALUE, 1L << 62, bit + 1);
    }
    a.dtype = dtype();
    int unit = a.dtype.unit();
    a.q = h.data(rows * 8, unit);
    a.out = h.data(rows * vDim, unit);
    if (h.rarely(3)) { // mostly right, and with room
      a.qHeadStride = 8 + h.random.nextInt(3);
      a.qTokenStride = a.qHeadStride * a.numQHeads + h.random.nextInt(3);
      a.q = h.data((int) (offsets[count] * a.qTokenStride) + h.random.nextInt(2), unit);
    }
    if (h.rarely(3)) {
      a.outHeadStride = vDim + h.random.nextInt(3) - h.random.nextInt(2);
      a.outTokenStride = a.outHeadStride * a.numQHeads + h.random.nextInt(3);
      a.out = h.data((int) (offsets[count] * a.outTokenStride) + h.random.nextInt(2), unit);
    }
    a.lse = h.rarely(3) ? h.floats(rows) : null;
    a.qOffsets = h.longs(offsets);
    a.kvLens = h.longs(lengths);
    a.blockTables = h.ints(count * 4, () -> h.rarely(40) ? h.number() : h.random.nextInt(12));
    a.alibiSlopes = h.rarely(4) ? h.floats(a.numQHeads) : null;
    if (h.rarely(3)) {
      a.mask = h.data((int) (bit + 7) / 8, 1);
      a.maskOffsets = h.longs(bits);
      a.maskStarts = h.longs(starts);
    }
    a.blockMask = h.rarely(4) ? h.data(count * heads, 1) : null;
    a.sinkLogits = h.rarely(4) ? h.floats(a.numQHeads) : null;
    a.launch = h.rarely(3) ? new Attention.Launch(h.rarely(2) ? h.data(32, 1) : null, h.rarely(2), h.rarely(2) ? h.data(32, 1) : null) : null;
    a.notCausal = h.rarely(4);
    a.layer = (int) h.oneOf(0, 1, 1, h.small(2));
    a.window = h.rarely(3) ? h.small(6) : 0;
    switch (h.random.nextInt(20)) {
      case 7 -> a.qOffsets = h.over(a.out, offsets);
      case 8 -> a.kvLens = h.over(a.out, lengths);
      case 0 -> a.numQHeads = h.integer();
      case 1 -> a.qStarts = h.longs(count, () -> h.small(16));
      case 2 -> a.sharedTokens = h.number();
      case 3 -> a.scale = Float.NaN;
      case 4 -> a.out = a.q;
      case 5 -> a.kvLens = a.qOffsets;
      case 6 -> a.maskStarts = h.longs(starts);
      case 9 -> a.qTokenStride = h.number();
      case 10 -> a.qHeadStride = h.number();
      case 11 -> a.outTokenStride = h.number();
      case 12 -> a.outHeadStride = h.number();
      default -> { }
    }
    return a;
  }

  private record Rows(ByteBuffer k, ByteBuffer v, DType dtype, LongBuffer slots, int first, int layers) {}

  private Rows rows() {
    int count = h.random.nextInt(6), layers = 1 + h.random.nextInt(2);
    DType dtype = dtype();
    int n = count * layers * (latent ? 1 : 2);
    LongBuffer slots = h.longs(count, () -> h.rarely(40) ? h.number() : h.random.nextInt(49) - 1);
    ByteBuffer k = h.data(n * 8, dtype.unit());
    if (h.rarely(16)) {
      slots = h.over(k, h.random.longs(count, 0, 48).toArray());
    }
    return new Rows(k, latent ? null : h.data(n * vDim, dtype.unit()), dtype, slots, layers == 2 ? 0 : (int) h.small(2),
        h.rarely(12) ? h.integer() : layers);
  }

  IntBuffer pairs() {
    return h.ints(2 * h.random.nextInt(3), () -> h.small(12));
  }

  ByteBuffer pages() {
    return h.rarely(20) ? storage.slab() : h.data(12 * (int) storage.blockBytes(), 1);
  }

  ByteBuffer bounds() {
    return h.data(12 * (latent ? 1 : 2) * 2 * 8, 2);
  }

  private void addStorage() {
    table.put("Storage.new", () -> new Storage(h.rarely(2) ? (StorageConfig) built(storageConfig()) : storageConfig()).close());
    table.put("Storage.store", () -> {
      Rows r = rows();
      if (h.rarely(2)) {
        s().store(r.k, r.v, r.dtype, r.slots, r.first, r.layers, stream());
        return;
      }
      int n = r.slots == null ? 1 : r.slots.remaining();
      Rope.Rotation rotation = new Rope.Rotation(h.floats(8 * n), h.rarely(2) ? null : h.longs(n, () -> h.small(n + 1)), (int) h.oneOf(0, 0, 4, h.number()),
          (int) h.oneOf(0, 0, h.small(4)), h.rarely(2));
      s().store(r.k, r.v, r.dtype, r.slots, r.first, r.layers, rotation, stream());
    });
    table.put("Storage.gather", () -> {
      Rows r = rows();
      s().gather(r.k, r.v, r.dtype, r.slots, r.first, r.layers, stream());
    });
    table.put("Storage.measure", () -> {
      Rows r = rows();
      s().measure(r.k, r.v, r.dtype, r.slots, r.first, r.layers);
    });
    table.put("Storage.copyTokens", () -> {
      try (Storage from = new Storage(new StorageConfig(4, 1, 1, 8).blockSize(8)); Storage to = new Storage(new StorageConfig(4, 1, 1, 8).blockSize(4))) {
        (h.rarely(4) ? s() : to).copyTokens(from, List.of(new Manager.TokenCopy(h.integer(), (int) h.small(4), (int) h.small(4), (int) h.small(4),
            (int) h.small(2), (int) h.oneOf(0, 1, 2, -1))));
      }
    });
    table.put("Storage.selectBlocks", () -> s().selectBlocks(attention(), bounds(), blockChoice(), stream()));
  }

  StorageConfig storageConfig() {
    return h.rarely(2) ? new StorageConfig(h.oneOf(1, 4, -1, 0), (int) h.oneOf(1, 2, -1, 0), (int) h.oneOf(1, 2, -1, 0), (int) h.oneOf(8, 16, -1, 8193))
        : new StorageConfig(2, 1, 1, 8);
  }

  Model model() throws KvCacheException {
    if (h.rarely(2)) {
      return Model.find("llama-3.1-8b");
    }
    Model model = new Model(h.integer(), h.integer(), h.integer(), h.number());
    return h.rarely(2) ? model : model.rope(h.number(), h.integer()).window(h.number(), h.rarely(2) ? new int[0] : new int[] {(int) h.small(4)});
  }

  Model.Query budget() {
    DType dtype = DType.values()[h.random.nextInt(7)];
    return h.rarely(2) ? Model.Query.ofFraction(dtype, new float[] {1e-5f, -1, Float.NaN}[h.random.nextInt(3)], h.rarely(2) ? null : text("cpu"))
        : Model.Query.ofBudget(dtype, h.oneOf(0, 5, 8 << 20, 16 << 20, -1));
  }

  private void addFunctions() {
    table.put("Attention.treeMask", () -> {
      int[] node = {0};
      IntBuffer parents = h.ints(h.random.nextInt(10), () -> h.rarely(20) ? h.number() : h.random.nextInt(++node[0]) - 1);
      int n = parents == null ? 0 : parents.remaining();
      Attention.treeMask(parents, h.data((n * n + 7) / 8, 1));
    });
    table.put("Attention.merge", () -> {
      int partials = h.random.nextInt(4), dim = 1 + h.random.nextInt(8), rows = h.random.nextInt(4);
      boolean wrong = h.rarely(8);
      DType dtype = dtype();
      Attention.merge(h.data(partials * rows * dim, dtype.unit()), h.floats(partials * rows), wrong ? h.integer() : partials, wrong ? h.integer() : dim, dtype,
          h.data(rows * dim, dtype.unit()), h.floats(rows));
    });
    table.put("Rope.table", () -> Rope.table(new Model.Frequencies(new double[] {1, h.number(), 0.5}, h.number()), h.longs(h.random.nextInt(5), h::number)));
    table.put("Rope.apply", () -> {
      int tokens = h.random.nextInt(4), heads = 1 + h.random.nextInt(3), dim = 2 * (1 + h.random.nextInt(4));
      boolean wrong = h.rarely(6);
      DType dtype = dtype();
      Rope.apply(h.data(tokens * heads * dim, dtype.unit()), dtype, wrong ? h.integer() : heads, wrong ? h.integer() : dim, (int) h.oneOf(0, 0, 2, h.number()),
          (int) h.oneOf(0, 0, h.small(3)), h.rarely(2), h.floats(dim * (tokens + 2)), h.rarely(2) ? null : h.longs(tokens, () -> h.small(4)));
    });
    table.put("Quantization.quantize", () -> quantize(true));
    table.put("Quantization.dequantize", () -> quantize(false));
    table.put("Model.fromConfig", () -> Model.fromConfig(text(CONFIG)));
    table.put("ShortfinConfig.read", () -> ShortfinConfig.read(text(SHORTFIN)));
    table.put("Model.register", () -> model().register(text("fuzz/model")));
    table.put("Model.find", () -> Model.find(text("llama-3.1-8b")));
    table.put("Model.ropeFrequencies", () -> model().ropeFrequencies((int) h.small(4), h.number(), new double[h.rarely(3) ? h.random.nextInt(65) : 0]));
    table.put("Buffers.bytes", () -> Buffers.bytes((int) h.oneOf(0, 1, 64, -1, Integer.MIN_VALUE)));
    table.put("Buffers.ints", () -> Buffers.ints((int) h.oneOf(0, 1, 64, -1, Integer.MAX_VALUE, 1 << 30)));
    table.put("Buffers.of", () -> Buffers.of(tokens()));
    table.put("Buffers.longs", () -> Buffers.longs((int) h.oneOf(0, 1, 64, -1, Integer.MAX_VALUE, 1 << 29)));
    table.put("NoSpaceException.again", () -> {
      try (Manager full = new Manager(1)) {
        full.allocate(new int[100]);
      } catch (NoSpaceException error) {
        error.again();
      }
    });
    table.put("NoSpaceException.overQuota", () -> {
      try (Manager full = new Manager(new Config().numBlocks(4).maxQuotas(1))) {
        full.setQuota(0, 0, 0, 1);
        full.allocate(new int[32]);
      } catch (NoSpaceException error) {
        error.overQuota();
      }
    });
    table.put("NoSpaceException.neverFits", () -> {
      try (Manager full = new Manager(1)) {
        full.allocate(new int[100]);
      } catch (NoSpaceException error) {
        error.neverFits();
      }
    });
    table.put("KvCacheException.status", () -> {
      try {
        manager.blockInfo(-1);
      } catch (KvCacheException error) {
        error.status();
      }
    });
  }

  private void quantize(boolean forth) throws KvCacheException {
    Quantization format = new Quantization(DType.values()[h.random.nextInt(7)], (int) h.oneOf(0, 0, 4, 3, h.number()), h.rarely(3), h.rarely(3),
        new float[] {0, 0, 0, 1, Float.NaN}[h.random.nextInt(5)]);
    int rows = h.random.nextInt(4), dim = h.random.nextInt(12);
    ByteBuffer values = h.floats(rows * dim), codes = h.data(format.codeBytes(rows, dim), 1), scales = h.floats(format.scaleBytes(rows, dim) / 4);
    if (h.rarely(8)) {
      rows = h.integer();
      dim = h.integer();
    }
    if (forth) {
      format.quantize(values, rows, dim, codes, scales);
    } else {
      format.dequantize(codes, scales, rows, dim, values);
    }
  }

  private static Object invoke(Method method, Object on, Object... arguments) throws Exception {
    try {
      return method.invoke(on, arguments);
    } catch (InvocationTargetException error) {
      throw error.getCause() instanceof Exception cause ? cause : error;
    }
  }

  interface Using<T> {
    void use(T object) throws Exception;
  }

  void workload(Using<Workload> using) throws Exception {
    try (Workload made = new Workload(h.number(), (int) h.oneOf(0, 2, 65536, 1, -1))) {
      using.use(made);
    }
  }

  void sizer(Using<Sizer> using) throws Exception {
    Sizer.Config config = new Sizer.Config().mode(Sizer.Mode.values()[h.random.nextInt(3)]).blocks(h.oneOf(0, 1, 9), h.oneOf(0, 9, 1L << 40), 0)
        .times(h.number(), h.number(), h.number()).shares(h.oneOf(-1, 0, 1) / 2.0, h.rarely(5) ? Double.NaN : 0.5, 0)
        .memory((int) h.oneOf(0, 2, 1), (int) h.oneOf(0, 1, 1 << 30, -1));
    try (Sizer made = new Sizer(config)) {
      using.use(made);
    }
  }

  void index(Using<Index> using) throws Exception {
    try (Index made = new Index(new Index.Options(h.oneOf(9, 100, -1), (int) h.oneOf(3, 1, 2000), (int) h.oneOf(2, 1, 9), 0, 0, h.number(), h.rarely(5)))) {
      made.addWorker(1, null, 0);
      using.use(made);
    }
  }

  String words() {
    return switch (h.random.nextInt(5)) {
      case 0 -> null;
      case 1 -> "";
      case 2 -> "x".repeat(300);
      default -> "kv@pod";
    };
  }

  void publisher(Using<Publisher> using) throws Exception {
    Publisher.Config config = new Publisher.Config().url(h.rarely(8) ? words() : null).topic(words()).medium(words())
        .hash(Publisher.Hash.values()[h.random.nextInt(3)], words()).rank((int) h.oneOf(-1, 0, 1)).groups(h.oneOf(0, 1, 0, 0, 1L << 40), h.random.nextBoolean())
        .batches((int) h.oneOf(0, 1, 5, -1), (int) h.oneOf(0, 1, 3), h.oneOf(0, 1 << 20, 1)).resyncInterval(h.number());
    if (h.rarely(4)) {
      config.thread(h.oneOf(0, 1, 1L << 40)).arrays().bytesHashes();
    }
    try (Manager own = new Manager(new Config().numBlocks(16).blockSize(4).eventCapacity(h.rarely(8) ? 0 : 64)); Publisher made = new Publisher(own, config)) {
      using.use(made);
    }
  }

  private void addIndex() {
    byte[] digest = new byte[32];
    Event event = new Event(0, 1, 0, 0, 1, 0, 0, Event.STORED, 0, 0, digest, digest, digest, new int[] {1});
    table.put("Index.new", () -> index(i -> {}));
    table.put("Index.apply", () -> index(i -> i.apply(h.small(3), few(3), List.of(event, event), h.number())));
    table.put("Index.endResync", () -> index(i -> {
      i.beginResync(1, Index.ALL_MEDIA);
      i.endResync(1, few(3) - 1, h.number());
    }));
    table.put("Index.load", () -> index(i -> {
      byte[] dump = i.dump();
      i.removeWorker(1);
      i.load(h.rarely(5) ? new byte[h.random.nextInt(60)] : dump);
    }));
  }

  private void addPublisher() {
    table.put("Publisher.new", () -> publisher(p -> {}));
    table.put("Publisher.resync", () -> publisher(p -> {
      p.resync();
      p.poll();
    }));
    table.put("Publisher.read", () -> publisher(p -> {
      p.poll();
      p.read(h.number());
    }));
  }

  double amount() {
    return h.rarely(5) ? Double.NaN : h.rarely(5) ? 1e300 : h.small(9);
  }

  private void addSizing() {
    table.put("Workload.new", () -> workload(w -> {}));
    table.put("Sizer.new", () -> sizer(s -> {}));
    table.put("Sizer.readLog", () -> sizer(s -> {
      s.decide(1, 5);
      s.readLog(h.small(2));
    }));
  }

  private int few(int n) {
    return (int) h.small(n);
  }

  /** A tree of two requests, or what is none. */
  private Drafts drafts() throws Exception {
    int n = h.random.nextInt(4), m = h.random.nextInt(3);
    int[] tokens = new int[n + m], parents = new int[n + m];
    for (int i = 0; i < n + m; ++i) {
      tokens[i] = few(3);
      parents[i] = h.random.nextInt(i < n ? i + 1 : i - n + 1) - 1;
    }
    return new Drafts(tokens, h.rarely(3) ? null : parents, h.rarely(20) ? new long[] {0, h.number(), n + m} : new long[] {0, n, n + m});
  }

  private Verdict verdict(Drafts drafts) throws Exception {
    Verdict good = drafts.verifyGreedy(Buffers.ints(drafts.numRows()));
    return h.rarely(4) ? new Verdict(h.ints(drafts.numNodes(), () -> few(3) - 1), Buffers.longs(2).put(0, h.small(2)), null) : good;
  }

  private Probabilities probabilities(Drafts drafts) {
    int rows = drafts.numRows();
    ByteBuffer p = Buffers.bytes(16 * rows), uniforms = Buffers.bytes(8 * rows);
    for (int i = 0; i < rows; ++i) {
      p.putFloat(16 * i + 4 * h.random.nextInt(4), h.rarely(20) ? Float.NaN : 1);
      uniforms.putDouble(8 * i, h.rarely(20) ? 1 : h.random.nextDouble());
    }
    Probabilities made = new Probabilities(h.rarely(10) ? h.integer() : 4, h.rarely(10) ? h.floats(4 * rows) : p, uniforms);
    made.trusted = h.rarely(4);
    made.numQRows = h.rarely(10) ? h.integer() : 0;
    if (h.rarely(10)) {
      made.pIds = h.ints(4 * rows, () -> few(5) - 1);
    }
    if (h.rarely(6)) {
      made.q = Buffers.bytes(16).putFloat(few(4) % 4 * 4 & 12, 1);
      made.numQRows = 1;
      made.qRows = Buffers.longs(drafts.numNodes());
    }
    return made;
  }

  void draft(Using<Draft> using) throws Exception {
    try (Draft made = new Draft((int) h.oneOf(3, 3, 3, 0, 65537), (int) h.oneOf(0, 1, 2, 40), (int) h.oneOf(0, 3, 32, 33), (int) h.oneOf(0, 0, 20))) {
      made.append(new int[] {0, 2}, new int[][] {{1, 2, 1, 2}, {1}});
      using.use(made);
    }
  }

  private Scheduler.Config schedulerConfig() {
    Scheduler.Config config = new Scheduler.Config().limits(4, 16, (int) h.oneOf(0, 0, 4)).plans(2, 3);
    if (h.rarely(3)) {
      config.policy(Scheduler.Policy.values()[h.random.nextInt(5)], Scheduler.Admission.values()[h.random.nextInt(4)]).cacheAware().kinds((int) h.small(3), (int) h.small(3));
    }
    if (h.rarely(6)) {
      config.limits((int) h.small(8), h.integer(), h.integer()).plans((int) h.small(3), (int) h.small(3)).tokens(h.number(), h.oneOf(0, 64, h.number()));
    }
    return h.rarely(6) ? config.maxWaitNs(h.number()).watermarks(h.oneOf(0, 1, 3) / 2.0, h.oneOf(0, 1) / 2.0).adaptivePlans(h.integer()) : config;
  }

  private Scheduler.Job job() {
    Scheduler.Job job = new Scheduler.Job().priority(h.integer()).adapter(h.number());
    if (h.rarely(4)) {
      job.expectedNewTokens(h.number()).tenant((int) h.small(1)).nowNs(h.number()).options(options()).notReady();
    }
    return h.rarely(4) ? job.inputs(h.small(4), h.small(3), h.small(9)) : h.rarely(4) ? job.inputs(h.small(3), h.small(3)) : job;
  }

  /** Plans of which a few results are spoilt; buffers are read after all was closed. */
  private void schedule() throws Exception {
    Manager own = new Manager(new Config().numBlocks(16).blockSize(4).maxRequests(8).maxRequestTokens(64));
    try (own; Scheduler s = new Scheduler(h.rarely(20) ? closedManager : own, schedulerConfig())) {
      long id = 0;
      for (int i = 0; i < 3; ++i) {
        id = s.add(prompt(), 6, h.rarely(4) ? job() : null);
      }
      long one = h.rarely(6) ? h.number() : id;
      switch (h.random.nextInt(8)) {
        case 0 -> s.abort(one);
        case 1 -> s.setReady(one);
        case 2 -> s.setPriority(one, h.integer());
        case 3 -> s.setWeight((int) h.small(1), h.random.nextInt(3));
        case 4 -> s.info(one);
        default -> s.stats();
      }
      List<Scheduler.Plan> plans = new ArrayList<>();
      for (int i = h.random.nextInt(6); i >= 0; --i) {
        Scheduler.Plan plan = s.plan(h.oneOf(0, 0, h.number()));
        if (plan.numItems() == 0) {
          continue;
        }
        plans.add(plan);
        Scheduler.Plan result = plans.get(h.random.nextInt(plans.size()));
        int samples = 0;
        for (int item = 0; item < plan.numItems(); ++item) {
          samples += plan.samples().get(item);
        }
        for (Method get : Scheduler.Plan.class.getDeclaredMethods()) {
          if (Modifier.isPublic(get.getModifiers()) && get.getParameterCount() == 0) {
            invoke(get, plan);
          }
        }
        plan.row((int) h.small(1), (int) h.small(4));
        if (h.rarely(20)) {
          s.fail(result);
        } else if (h.rarely(2)) {
          s.finish(plan, new int[samples]);
        } else {
          s.finish(result, h.ints(samples, () -> few(3)), h.rarely(3) ? h.longs(plan.numItems() + 1, () -> h.small(2)) : null,
              h.rarely(3) ? h.data(plan.numItems(), 1) : null);
        }
        s.setDrafts(h.longs(1, () -> one), h.ints(1, () -> few(4)));
      }
      s.check();
    }
  }

  private void addScheduler() {
    for (Class<?> type : new Class<?>[] {Scheduler.class, Scheduler.Plan.class, Scheduler.Config.class, Scheduler.Job.class}) {
      String name = type.getName().substring("io.kvcache.".length());
      for (Method method : FuzzTest.methods(type)) {
        if (Modifier.isPublic(method.getModifiers()) && !method.getName().equals("toString")) {
          table.put(name + "." + method.getName(), this::schedule);
        }
      }
      if (type != Scheduler.Plan.class) {
        table.put(name + ".new", this::schedule);
      }
    }
    table.put("Scheduler$Job.inputs", this::job);
  }

  private void addSpeculation() {
    for (String name : new String[] {"new", "numRequests", "numNodes", "numRows", "first", "token"}) {
      table.put("Drafts." + name, () -> {
        Drafts d = drafts();
        if (d.numRows() != d.numNodes() + d.numRequests() || d.numNodes() != 0 && d.token(d.first(0)) < 0) {
          throw new AssertionError(d);
        }
      });
    }
    table.put("Drafts.verifyGreedy", () -> {
      Drafts d = drafts();
      d.verifyGreedy(h.ints(d.numRows(), () -> few(3)));
    });
    table.put("Drafts.verifySampling", () -> {
      Drafts d = drafts();
      d.verifySampling(probabilities(d));
    });
    table.put("Drafts.verifyTypical", () -> {
      Drafts d = drafts();
      d.verifyTypical(probabilities(d), h.oneOf(1, 1, 2) / 2.0, amount());
    });
    table.put("Probabilities.new", () -> probabilities(drafts()));
    table.put("Verdict.tokens", () -> {
      Drafts d = drafts();
      d.verifyGreedy(Buffers.ints(d.numRows())).tokens(d, h.random.nextInt(2));
    });
    table.put("Drafts.moves", () -> {
      Drafts d = drafts();
      d.moves(verdict(d), h.longs(2, () -> h.small(9)), h.ints(8, () -> few(9) - 1), (int) h.oneOf(4, 4, 0, -1, 1 << 21), h.integer());
    });
    table.put("Drafts.states", () -> {
      Drafts d = drafts();
      IntBuffer states = h.ints(d.numRows(), () -> few(9) - 1);
      d.states(verdict(d), h.longs(2, () -> h.small(9)), h.ints(8, () -> few(9) - 1), (int) h.oneOf(4, 4, 0, -1, 1 << 21), states);
    });
    table.put("Storage.moveTokens", () -> {
      try (Storage to = new Storage(new StorageConfig(4, 1, 1, 8).blockSize(4))) {
        to.moveTokens(List.of(new Manager.TokenCopy(h.integer(), few(4), few(4), few(4), few(2), (int) h.oneOf(0, 1, 2, -1))));
      }
    });
    table.put("Draft.new", () -> draft(d -> {}));
    table.put("Draft.append", () -> draft(d -> d.append(few(4) - 1, few(3) - 1, 2)));
    table.put("Draft.propose", () -> draft(d -> d.propose(new int[] {few(4) - 1, 0}, new int[] {few(9) - 1, 5})));
    table.put("Draft.lookup", () -> Draft.lookup(h.ints(h.random.nextInt(20), () -> few(2)), few(3), (int) h.oneOf(3, 33, -1), few(9) - 1));
    for (String name : new String[] {"new", "add", "numDrafts", "numNodes", "numAccepted", "tried", "accepted", "halve"}) {
      table.put("Acceptance." + name, () -> {
        Acceptance a = new Acceptance();
        Drafts d = drafts();
        a.add(d, verdict(d));
        if (a.numNodes() != d.numNodes() || a.numDrafts() > 2 || a.numAccepted() > a.numNodes() || a.tried(0) < a.accepted(0)) {
          throw new AssertionError(a);
        }
        a.halve();
      });
    }
    table.put("Acceptance.bestLength", () -> new Acceptance().bestLength(1, amount()));
  }

  /** The setters of configs and options, by their parameters' types. Numbers in between would take much memory. */
  Tier t() {
    return h.rarely(200) ? closedTier : tier;
  }

  /** Keys of some pages of 64 bytes. */
  ByteBuffer pageKeys() {
    ByteBuffer keys = h.data(32 * h.random.nextInt(5), 1);
    for (int i = 0; keys != null && !keys.isReadOnly() && i < keys.remaining(); ++i) {
      keys.put(keys.position() + i, (byte) (i % 32 == 0 ? h.random.nextInt(6) : 0));
    }
    return keys;
  }

  private ByteBuffer pages(ByteBuffer keys) {
    return h.data(2 * keys.remaining(), 1);
  }

  private List<ByteBuffer> pageList(ByteBuffer keys) {
    List<ByteBuffer> pages = new ArrayList<>();
    for (int i = 0; i < keys.remaining() / 32; ++i) {
      pages.add(h.data(64, 1));
    }
    return pages;
  }

  JobOptions jobOptions() {
    if (h.rarely(2)) {
      return null;
    }
    JobOptions options = new JobOptions().priority(h.rarely(2) ? null : JobOptions.Priority.values()[h.random.nextInt(3)]);
    options.timeoutNs(h.oneOf(0, 0, 1L << 33, h.number())).leaseNs(h.oneOf(0, h.number())).nowNs(h.small(30));
    if (h.rarely(4)) {
      options.generations(new long[h.random.nextInt(5)]);
    }
    if (h.rarely(4)) {
      LongBuffer runs = h.longs(2 * h.random.nextInt(3), () -> h.small(20));
      options.runs(runs, h.oneOf(0, 64, h.number()));
    }
    return options;
  }

  PageConfig pageConfig() {
    PageConfig config = new PageConfig(h.rarely(8) ? null : new byte[h.random.nextInt(9)], new byte[1 + h.random.nextInt(3)]);
    return config.numerics(h.rarely(2) ? null : new byte[3]).whole((int) h.oneOf(0, 0, 4, h.number()), (int) h.oneOf(0, 0, 4, h.number()))
        .first((int) h.oneOf(0, 0, 1, h.number()), (int) h.oneOf(0, 0, 1, h.number()));
  }

  private void addTiers() {
    table.put("Tier.new", () -> {
      String url = new String[] {"memory:?bytes=64KiB", "memory:?bytes=64KiB&threads=0", "memory:", "", "x", "dir:", null}[h.random.nextInt(7)];
      byte[] print = h.rarely(9) ? new byte[31 + h.random.nextInt(2)] : TierTest.FINGERPRINT;
      try (Tier made = h.rarely(2) ? new Tier(url, h.oneOf(64, h.number()), print) : new Tier(url, 64, print, h.number())) {
        made.submitExists(pageKeys(), null);
      }
    });
    table.put("Tier.openPlugin", () -> {
      try {
        Tier.openPlugin(new String[] {"absent", "absent", "A B", "", null}[h.random.nextInt(5)], h.rarely(2) ? null : "/nowhere");
      } catch (KvCacheException error) {
        if (error.status() != Native.KVC_ERROR_NOT_FOUND) {
          throw error;
        }
      }
    });
    table.put("Tier.submitGet", () -> {
      ByteBuffer keys = pageKeys();
      Tier.Job job = h.rarely(2) ? t().submitGet(keys, pages(keys), jobOptions()) : t().submitGet(keys, pageList(keys), jobOptions());
      job.join();
    });
    table.put("Tier.submitPut", () -> {
      ByteBuffer keys = pageKeys();
      Tier.Job job = h.rarely(2) ? t().submitPut(keys, pages(keys), jobOptions()) : t().submitPut(keys, pageList(keys), jobOptions());
      job.join();
    });
    table.put("Tier.cancel", () -> t().cancel(tier.submitExists(pageKeys(), jobOptions())));
    table.put("Tier.await", () -> t().await(tier.submitExists(pageKeys(), jobOptions())));
    table.put("Tier$Done.result", () -> t().exists(pageKeys(), jobOptions()).result(h.integer()));
    table.put("Tier.get", () -> {
      ByteBuffer keys = pageKeys();
      t().get(keys, pages(keys), jobOptions());
    });
    table.put("Tier.put", () -> {
      ByteBuffer keys = pageKeys();
      t().put(keys, pages(keys), jobOptions());
    });
    table.put("Tier.runOne", () -> {
      try (Tier alone = new Tier("memory:?bytes=64KiB&threads=0", 64, TierTest.FINGERPRINT)) {
        alone.submitExists(pageKeys(), null);
        (h.rarely(4) ? t() : alone).runOne();
      }
    });
    table.put("Metrics.render", () -> {
      String name = List.of("a", "a", "a", "state", "", "__a", "a b", "\0").get(h.random.nextInt(8)), value = List.of("x", "x", "\u00e9\"\\\n", "\ud800", "\0").get(h.random.nextInt(5));
      List<Metrics.Source> sources = new ArrayList<>();
      for (int i = h.random.nextInt(4); i > 0; --i) {
        sources.add(new Metrics.Source(List.of(m(), s(), t()).get(h.random.nextInt(3)), Map.of(name, value, "i", "" + i)));
      }
      Metrics.render(h.rarely(20) ? null : sources, h.random.nextBoolean());
    });
    table.put("Metrics.enableLatencies", () -> {
      try (Manager alone = new Manager(new Config().numBlocks(8))) {
        Metrics.enableLatencies(alone, h.rarely(4) ? closedManager : alone);
        Metrics.readLatency(alone, Metrics.Latency.ADMIT).count();
      }
    });
    table.put("Metrics.readLatency", () -> {
      Metrics.Latency latency = h.rarely(9) ? null : Metrics.Latency.values()[h.random.nextInt(12)];
      try (Manager measured = new Manager(new Config().numBlocks(8))) {
        Metrics.enableLatencies(measured);
        Metrics.readLatency(h.rarely(4) ? m() : h.rarely(4) ? t() : measured, latency);
      }
    });
    table.put("Metrics.readMemory", () -> Metrics.readMemory(m(), s(), h.rarely(9) ? null : t()).slabBytes());
  }

  private void addBuilders() {
    for (Class<?> type : new Class<?>[] {Config.class, RequestOptions.class, StorageConfig.class}) {
      for (Method setter : type.getDeclaredMethods()) {
        if (Modifier.isPublic(setter.getModifiers()) && setter.getReturnType() == type) {
          table.put(type.getSimpleName() + "." + setter.getName(), () -> {
            Config config = setter.getName().equals("memory") ? new Config() : new Config().numBlocks(4);
            Object on = type == Config.class ? config : type == StorageConfig.class ? storageConfig() : new RequestOptions();
            set(setter, on);
            if (on instanceof StorageConfig shape) {
              new Storage(shape).close();
            } else if (on instanceof RequestOptions options) {
              keep(manager.allocate(prompt(), options));
            } else {
              new Manager((Config) on).close();
            }
          });
        }
      }
    }
  }

  private Object built(Object on) throws Exception {
    for (Method setter : on.getClass().getDeclaredMethods()) {
      if (Modifier.isPublic(setter.getModifiers()) && setter.getReturnType() == on.getClass() && h.rarely(3)) {
        set(setter, on);
      }
    }
    return on;
  }

  private void set(Method setter, Object on) throws Exception {
    Object[] arguments = new Object[setter.getParameterCount()];
    for (int i = 0; i < arguments.length; ++i) {
      Class<?> type = setter.getParameterTypes()[i];
      long number = h.oneOf(0, 1, 2, 4, 16, -1, Long.MIN_VALUE, Long.MAX_VALUE);
      if (type == int.class) {
        arguments[i] = (int) number;
      } else if (type == byte[].class) {
        arguments[i] = h.rarely(4) ? null : new byte[h.rarely(4) ? 31 : 32];
      } else if (type == long.class) {
        arguments[i] = number;
      } else if (type == float.class) {
        arguments[i] = new float[] {0, 1, Float.NaN, -1}[h.random.nextInt(4)];
      } else if (type == double.class) {
        arguments[i] = new double[] {0, 1, 1e300, Double.NaN, -1}[h.random.nextInt(5)];
      } else if (type == Config.Policy.class) {
        arguments[i] = Config.Policy.values()[h.random.nextInt(3)];
      } else if (type == RequestOptions.Headroom.class) {
        arguments[i] = RequestOptions.Headroom.values()[h.random.nextInt(4)];
      } else if (type == long[].class) {
        arguments[i] = h.rarely(2) ? new long[] {number} : new long[] {4, number};
      } else if (type == DType.class) {
        arguments[i] = DType.values()[h.random.nextInt(7)];
      } else if (type == ByteBuffer.class) {
        arguments[i] = h.data(1 << 12, 64);
      } else if (type == Config.Group[].class) {
        arguments[i] = new Config.Group[] {new Config.Group(h.number(), h.integer(), h.number(), (int) h.small(2))};
      } else if (type == RequestOptions.ExtraKey[].class) {
        arguments[i] = keys();
      } else if (type == Model.class) {
        arguments[i] = model();
      } else if (type == Model.Query.class) {
        arguments[i] = budget();
      } else {
        throw new AssertionError("the fuzz has no value of " + type);
      }
    }
    invoke(setter, on, arguments);
  }
}
