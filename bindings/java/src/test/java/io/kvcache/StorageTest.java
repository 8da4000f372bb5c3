// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.IntBuffer;
import java.nio.LongBuffer;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;

class StorageTest {
  static final int TOKENS = 32, HEADS = 2, DIM = 16, BLOCKS = 8;
  static final Random RANDOM = new Random(1);

  static ByteBuffer floats(float... values) {
    ByteBuffer buffer = Buffers.bytes(4 * values.length);
    buffer.asFloatBuffer().put(values);
    return buffer;
  }

  static ByteBuffer randoms(int count) {
    float[] values = new float[count];
    for (int i = 0; i < count; ++i) {
      values[i] = (float) RANDOM.nextGaussian();
    }
    return floats(values);
  }

  static float[] array(ByteBuffer buffer) {
    float[] values = new float[buffer.remaining() / 4];
    buffer.asFloatBuffer().get(values);
    return values;
  }

  static LongBuffer longs(long... values) {
    return Buffers.longs(values.length).put(values).flip();
  }

  static LongBuffer slots() {
    LongBuffer slots = Buffers.longs(TOKENS);
    for (int i = 0; i < TOKENS; ++i) {
      slots.put(i, i);
    }
    return slots;
  }

  static StorageConfig config() {
    return new StorageConfig(BLOCKS, 1, HEADS, DIM).blockSize(4).dtype(DType.FLOAT32);
  }

  static Attention question(int... table) {
    Attention a = new Attention();
    a.numQHeads = 4;
    a.q = randoms(4 * DIM);
    a.out = Buffers.bytes(4 * 4 * DIM);
    a.lse = Buffers.bytes(16);
    a.qOffsets = longs(0, 1);
    a.kvLens = longs(table.length * 4L);
    a.blockTables = ManagerTest.direct(table);
    return a;
  }

  static final int[] WHOLE = {0, 1, 2, 3, 4, 5, 6, 7};

  final ByteBuffer k = randoms(TOKENS * HEADS * DIM), v = randoms(TOKENS * HEADS * DIM);

  void fill(Storage s) throws KvCacheException {
    s.store(k, v, DType.FLOAT32, slots(), 0, 1, null);
  }

  static float[] attend(Storage s, Attention a) throws KvCacheException {
    s.attend(a, null);
    return array(a.out);
  }

  @Test
  void attentionIsTheWeightedSumOfValues() throws Exception {
    try (Storage s = new Storage(config())) {
      fill(s);
      ByteBuffer gotK = Buffers.bytes(k.capacity()), gotV = Buffers.bytes(v.capacity());
      s.gather(gotK, gotV, DType.FLOAT32, slots(), 0, 1, null);
      assertArrayEquals(array(k), array(gotK));
      assertArrayEquals(array(v), array(gotV));
      Attention a = question(WHOLE);
      float[] out = attend(s, a), q = array(a.q), keys = array(k), values = array(v);
      for (int h = 0; h < 4; ++h) {
        double sum = 0;
        double[] expected = new double[DIM];
        for (int t = 0; t < TOKENS; ++t) {
          int row = (t * HEADS + h / 2) * DIM;
          double logit = 0;
          for (int e = 0; e < DIM; ++e) {
            logit += (double) q[h * DIM + e] * keys[row + e];
          }
          double weight = Math.exp(logit / Math.sqrt(DIM));
          sum += weight;
          for (int e = 0; e < DIM; ++e) {
            expected[e] += weight * values[row + e];
          }
        }
        for (int e = 0; e < DIM; ++e) {
          assertEquals(expected[e] / sum, out[h * DIM + e], 1e-4);
        }
        assertEquals(Math.log(sum), array(a.lse)[h], 1e-4);
      }
      Attention.Info info = s.explain(a);
      assertFalse(info.sparse());
      assertEquals(1, info.numWorkers());
      assertEquals(0, info.planBytes()); // the CPU ignores the plan
      a.launch = new Attention.Launch(Buffers.bytes(16), true, null);
      assertArrayEquals(array(a.out), attend(s, a));
      Storage.Metrics[] metrics = s.measure(k, v, DType.FLOAT32, slots(), 0, 1);
      assertEquals(0, metrics[0].mse());
      assertEquals(0.5, metrics[1].ratio());
    }
  }

  /** Queries and results apart, in each order of queries and heads; what lies between the rows of results stays. */
  @Test
  void queriesAndResultsMayBePartsOfLargerBuffers() throws Exception {
    int tokens = 3, heads = 4;
    long[][] cases = {{(heads + 4) * DIM, 0, heads * DIM + 5, 0}, {0, DIM + 3, 0, DIM + 1}, {DIM, tokens * DIM, DIM + 1, tokens * (DIM + 1) - 1},
        {(heads + 4) * DIM, DIM, heads * DIM, DIM}};
    try (Storage s = new Storage(config())) {
      fill(s);
      Attention a = question(WHOLE);
      a.qOffsets = longs(0, tokens);
      a.q = randoms(tokens * heads * DIM);
      a.out = Buffers.bytes(4 * tokens * heads * DIM);
      a.lse = null;
      float[] dense = attend(s, a);
      ByteBuffer from = a.q;
      for (long[] strides : cases) {
        a.qTokenStride = strides[0];
        a.qHeadStride = strides[1];
        a.outTokenStride = strides[2];
        a.outHeadStride = strides[3];
        a.q = Buffers.bytes(4 * 2000);
        a.out = Buffers.bytes(4 * 2000);
        for (int i = 0; i < 2000; ++i) {
          a.q.putFloat(4 * i, Float.NaN);
          a.out.putFloat(4 * i, -777);
        }
        for (int i = 0; i < tokens * heads * DIM; ++i) {
          a.q.putFloat(4 * element(i, heads, strides[0], strides[1]), from.getFloat(4 * i));
        }
        s.explain(a);
        s.attend(a, null);
        int written = 0;
        for (int i = 0; i < tokens * heads * DIM; ++i) {
          assertEquals(dense[i], a.out.getFloat(4 * element(i, heads, strides[2], strides[3])));
        }
        for (float x : array(a.out)) {
          written += x != -777 ? 1 : 0;
        }
        assertEquals(tokens * heads * DIM, written);
        int last = element(tokens * heads * DIM - 1, heads, strides[0], strides[1]) + 1;
        a.q.limit(4 * last);
        s.attend(a, null);
        a.q.limit(4 * last - 4);
        SizesTest.refused(() -> s.attend(a, null));
      }
    }
  }

  /** Where element i of rows side by side lies. */
  private static int element(int i, int heads, long token, long head) {
    long headStride = head == 0 ? DIM : head, tokenStride = token == 0 ? heads * headStride : token;
    return (int) (i / DIM / heads * tokenStride + i / DIM % heads * headStride + i % DIM);
  }

  @Test
  void sinkLogitsTakeTheirShareOfAttention() throws Exception {
    try (Storage s = new Storage(config())) {
      fill(s);
      Attention a = question(WHOLE);
      float[] dense = attend(s, a), lse = array(a.lse), sinks = {1.5f, Float.NEGATIVE_INFINITY, 4, -2};
      a.sinkLogits = Buffers.bytes(16);
      a.sinkLogits.asFloatBuffer().put(sinks);
      a.launch = new Attention.Launch(null, false, Buffers.bytes(3));
      float[] out = attend(s, a), with = array(a.lse);
      for (int i = 0; i < out.length; ++i) {
        assertEquals(dense[i] / (1 + Math.exp(sinks[i / DIM] - lse[i / DIM])), out[i], 1e-5);
      }
      for (int h = 0; h < 4; ++h) {
        assertEquals(Math.log(Math.exp(lse[h]) + Math.exp(sinks[h])), with[h], 1e-5);
      }
      Attention.Info info = s.explain(a);
      assertEquals(0, info.workspaceBytes() + info.selectionBytes()); // of the CPU
      a.sinkLogits.putFloat(8, Float.NaN);
      assertThrows(KvCacheException.class, () -> s.attend(a, null));
      a.sinkLogits = Buffers.bytes(12);
      SizesTest.refused(() -> s.attend(a, null));
    }
  }

  @Test
  void blocksAreCopiedClearedAndFound() throws Exception {
    try (Storage s = new Storage(config())) {
      fill(s);
      s.copyBlocks(ManagerTest.direct(0, 7), null);
      ByteBuffer pages = Buffers.bytes((int) (2 * s.blockBytes()));
      s.swapOut(ManagerTest.direct(7, 1), pages, 0, null);
      s.zeroBlocks(ManagerTest.direct(0, 7), null);
      s.swapIn(ManagerTest.direct(1, 7), pages, 0, null);
      assertThrows(KvCacheException.class, () -> s.swapOut(ManagerTest.direct(0, 2), pages, 0, null));
      s.quantizeBlocks(ManagerTest.direct(0), null);
      ByteBuffer one = Buffers.bytes(4 * HEADS * DIM), other = Buffers.bytes(4 * HEADS * DIM);
      s.gather(one, other, DType.FLOAT32, longs(28), 0, 1, null);
      assertArrayEquals(array(k.duplicate().order(k.order()).limit(4 * HEADS * DIM)), array(one));
      s.gather(one, other, DType.FLOAT32, longs(0), 0, 1, null);
      assertArrayEquals(new float[HEADS * DIM], array(one));
      LongBuffer runs = s.runs(3);
      long total = 0;
      for (int i = 1; i < runs.remaining(); i += 2) {
        total += runs.get(i);
      }
      assertEquals(s.blockBytes(), total);
      assertEquals(config().size()[1], s.slab().capacity());
    }
  }

  @Test
  void masksHideWhatTheySay() throws Exception {
    try (Storage s = new Storage(config())) {
      fill(s);
      Attention a = question(WHOLE);
      float[] dense = attend(s, a);
      ByteBuffer bounds = Buffers.bytes(BLOCKS * HEADS * 2 * DIM * 2);
      s.keyBounds(0, a.blockTables, bounds, null);
      a.blockMask = s.selectBlocks(a, bounds, 8, 0, 0, null);
      assertArrayEquals(dense, attend(s, a));
      a.blockMask = s.selectBlocks(a, bounds, 2, 1, 0, null);
      assertEquals((byte) 0x81, a.blockMask.get(0));
      assertEquals(a.blockMask, s.selectBlocks(a, bounds, new BlockChoice(0, 0.25, 0, 1, 0), null)); // 2 of 8
      assertEquals((byte) 0xff, s.selectBlocks(a, bounds, new BlockChoice(0, 0, Double.POSITIVE_INFINITY, 0, 0), null).get(0));
      ByteBuffer close = s.selectBlocks(a, bounds, new BlockChoice(0, 0, 1e-6, 0, 0), null);
      assertTrue(close.get(0) < 0 && close.get(0) != -1); // the last block and the best of the others, not all
      BlockChoice[] wrong = {new BlockChoice(0, Double.NaN, 0, 0, 0), new BlockChoice(0, 1.5, 0, 0, 0), new BlockChoice(0, 0, -1, 0, 0),
        new BlockChoice(1, 0.5, 0, 0, 0), new BlockChoice(0, 0, 0, 0, 0)};
      for (BlockChoice each : wrong) {
        assertEquals(Native.KVC_ERROR_INVALID_ARGUMENT, assertThrows(KvCacheException.class, () -> s.selectBlocks(a, bounds, each, null)).status());
      }
      assertTrue(s.explain(a).sparse());
      float[] few = attend(s, a);
      a.blockMask = null;
      a.mask = Buffers.bytes(4).put(0, (byte) 0x0f).put(3, (byte) 0xf0);
      a.maskOffsets = longs(0);
      assertArrayEquals(few, attend(s, a), 1e-5f);
      a.mask = Buffers.bytes(3);
      assertThrows(IllegalArgumentException.class, () -> s.attend(a, null));
      a.mask = null;
      a.blockMask = Buffers.bytes(1);
      assertThrows(IllegalArgumentException.class, () -> s.attend(a, null));
      a.blockMask = null;
      a.kvLens = longs(99);
      KvCacheException error = assertThrows(KvCacheException.class, () -> s.attend(a, null));
      assertEquals(Native.KVC_ERROR_INVALID_ARGUMENT, error.status());
    }
  }

  @Test
  void partsMergeIntoTheWhole() throws Exception {
    try (Storage s = new Storage(config())) {
      fill(s);
      Attention a = question(WHOLE);
      float[] whole = attend(s, a);
      ByteBuffer outs = Buffers.bytes(2 * 4 * 4 * DIM), lses = Buffers.bytes(2 * 16);
      for (int part = 0; part < 2; ++part) {
        a.kvLens = longs(16);
        a.notCausal = true;
        a.blockTables = ManagerTest.direct(4 * part, 4 * part + 1, 4 * part + 2, 4 * part + 3);
        s.attend(a, null);
        outs.put(a.out.duplicate());
        lses.put(a.lse.duplicate());
      }
      ByteBuffer out = Buffers.bytes(4 * 4 * DIM);
      Attention.merge(outs.flip(), lses.flip(), 2, DIM, DType.FLOAT32, out, null);
      assertArrayEquals(whole, array(out), 1e-5f);
      ByteBuffer mask = Buffers.bytes(2);
      IntBuffer depths = Attention.treeMask(ManagerTest.direct(-1, 0, 0, 1), mask);
      assertEquals(2, depths.get(3));
      assertEquals((byte) 0x31, mask.get(0));
    }
  }

  @Test
  void workInAStreamIsDoneInOrder() throws Exception {
    try (Storage s = new Storage(config()); Stream stream = new Stream(); Stream other = new Stream(); StreamEvent event = new StreamEvent()) {
      assertTrue(event.done());
      for (int i = 0; i < 40; ++i) {
        s.store(k, v, DType.FLOAT32, slots(), 0, 1, stream);
      }
      s.copyBlocks(ManagerTest.direct(0, 7), stream);
      event.record(stream);
      other.await(event);
      ByteBuffer gotK = Buffers.bytes(k.capacity()), gotV = Buffers.bytes(v.capacity());
      s.gather(gotK, gotV, DType.FLOAT32, slots(), 0, 1, other);
      other.sync();
      assertTrue(event.done());
      event.sync();
      assertArrayEquals(java.util.Arrays.copyOf(array(k), 28 * HEADS * DIM), java.util.Arrays.copyOf(array(gotK), 28 * HEADS * DIM));
      Attention a = question(WHOLE);
      s.attend(a, stream);
      stream.sync();
      float[] enqueued = array(a.out);
      assertArrayEquals(attend(s, a), enqueued);
      assertThrows(KvCacheException.class, () -> s.zeroBlocks(ManagerTest.direct(BLOCKS), stream));
      stream.close();
      assertThrows(IllegalStateException.class, () -> s.zeroBlocks(ManagerTest.direct(0), stream));
    }
    assertThrows(KvCacheException.class, () -> new Stream("gpu9"));
  }

  @Test
  void externalMemoryIsUsedInPlace() throws Exception {
    long[] size = config().size();
    ByteBuffer memory = Buffers.bytes((int) size[1] + 64).alignedSlice(64).limit((int) size[1]);
    try (Storage s = new Storage(config().memory(memory))) {
      fill(s);
      boolean written = false;
      for (int i = 0; i < size[1]; ++i) {
        written |= memory.get(i) != 0;
      }
      assertTrue(written);
    }
    assertThrows(KvCacheException.class, () -> new Storage(config().memory(memory.duplicate().limit(64))));
    Storage closed = new Storage(config());
    closed.close();
    closed.close();
    assertThrows(IllegalStateException.class, () -> fill(closed));
  }

  @Test
  void aConfigOfShortfinGivesAManagerAndAStorageForEachDevice() throws Exception {
    ShortfinConfig config = ShortfinConfig.read(FuzzCalls.SHORTFIN);
    assertEquals(2, config.storages().size());
    new Manager(config.manager()).close();
    int[] layers = {4, 2};
    for (int d = 0; d < 2; ++d) {
      try (Storage storage = new Storage(config.storages().get(d))) {
        assertEquals(new Storage.Trimmed(0, 0), storage.trim());
        assertEquals(128L * layers[d] * 2 * 4 * 64 * 16 * 2, storage.slab().capacity());
      }
    }
    assertTrue(assertThrows(KvCacheException.class, () -> ShortfinConfig.read(FuzzCalls.SHORTFIN.replace("bfloat16", "int3"))).getMessage()
        .contains("kv_cache_dtype"));
  }

  @Test
  void typesHaveTheBitsOfTheLibrary() throws Exception {
    long[] bits = {0};
    for (DType type : DType.values()) {
      Native.kvc_dtype_bits(type.code, bits);
      assertEquals(bits[0], type.bits(), type.name());
    }
    assertThrows(KvCacheException.class, () -> Native.kvc_dtype_bits(12, bits));
  }

  @Test
  void presetsEstimateAndRotate() throws Exception {
    assertTrue(Model.all().size() >= 40);
    Model llama = Model.find("meta-llama/Llama-3.1-8B");
    Model.Estimate estimate = llama.estimate(new Model.Query(DType.FLOAT16, 8192, 0, 1L << 34, 0, 0));
    assertEquals(2 * 32 * 8 * 128 * 2, estimate.bytesPerToken());
    assertEquals((1L << 34) / estimate.totalBytes(), estimate.maxSequences());
    Model read = Model.fromConfig("{\"model_type\": \"llama\", \"hidden_size\": 4096, \"num_hidden_layers\": 32, \"num_attention_heads\": 32,"
        + "\"num_key_value_heads\": 8, \"vocab_size\": 128256, \"max_position_embeddings\": 131072, \"_name_or_path\": \"mine\"}");
    assertEquals(List.of("mine", 8, 128, 131072L), List.of(read.name(), read.numKvHeads(), read.headDim(), read.maxContext()));
    assertTrue(assertThrows(KvCacheException.class, () -> Model.fromConfig("{")).getMessage().contains("not JSON"));
    assertTrue(assertThrows(KvCacheException.class, () -> Model.find("llama-3.1-8c")).getMessage().contains("llama-3.1-8b"));
    read.register("own/llama");
    assertEquals(List.of("own/llama", 128), List.of(Model.find("OWN/llama").name(), Model.find("own/llama").headDim()));
    List<Model> all = Model.all();
    assertEquals("own/llama", all.get(all.size() - 1).name());
    new Model(4, 1, 8, 64).register("own/llama");
    assertEquals(4, Model.find("own/llama").numLayers());
    assertEquals(all.size(), Model.all().size());
    assertTrue(assertThrows(KvCacheException.class, () -> read.register("phi-4")).getMessage().contains("means the preset phi-4"));
    assertTrue(assertThrows(KvCacheException.class, () -> read.register("a b")).getMessage().contains("spaces"));
    assertTrue(assertThrows(IllegalArgumentException.class, () -> read.register("x".repeat(64))).getMessage().contains("at most 63"));
    assertEquals("own/llama", read.name());
    Model own = new Model(4, 1, 4, 64).window(16, 1, 3).rope(100, 0);
    assertTrue(own.hasWindow(3) && !own.hasWindow(2));
    assertEquals(2, own.estimate(new Model.Query(DType.INT8, 32)).numWindowLayers());

    Model windowed = new Model(6, 1, 4, 64).window(16, 1, 3);
    // Hits at every block (the default) or at multiples of 64 tokens need more windows of a cached sequence than those at its end.
    long[] windows = new long[3];
    long[] retentions = {0, 64, Model.Query.NO_RETENTION};
    for (int i = 0; i < windows.length; ++i) {
      windows[i] = windowed.estimate(new Model.Query(DType.BFLOAT16, 4096, 0, 1 << 26, 0, 0, 0, null, 0, retentions[i])).windowPoolBlocks();
    }
    assertTrue(windows[0] > windows[1] && windows[1] > windows[2], Arrays.toString(windows));
    assertEquals(windows[0], windowed.estimate(new Model.Query(DType.BFLOAT16, 4096, 0, 1 << 26, 0, 0, 0, null, 0, 16)).windowPoolBlocks());
    assertTrue(assertThrows(KvCacheException.class, () -> windowed.estimate(new Model.Query(DType.BFLOAT16, 4096, 0, 0, 0, 0, 0, null, 0, 24)))
        .getMessage().contains("retention_tokens is 24"));

    Model hybrid = new Model(4, 1, 8, 64).states(30, 70, 0, 2).encoder(100, 4, 2, 8);
    assertTrue(hybrid.hasState(2) && !hybrid.hasState(1));
    assertEquals(List.of(30L, 70L, 100L), List.of(hybrid.convElements(), hybrid.recurrentElements(), hybrid.crossTokens()));
    Model.Estimate mixed = hybrid.estimate(new Model.Query(DType.BFLOAT16, 0, 0, 1 << 20, 0, 0, 0, null, 16));
    assertEquals(List.of(2 * 100 * 2L, 6L, 7L, 2, 4), List.of(mixed.stateBlockBytes(), mixed.stateBlocks(), mixed.crossBlocks(),
        mixed.numStateLayers(), mixed.numCrossLayers()));
    assertTrue(mixed.statePoolBlocks() > 0 && mixed.crossPoolBlocks() > 0);
    assertEquals(28, Model.find("jamba-1.5-mini").estimate(new Model.Query(DType.BFLOAT16, 4096)).numStateLayers());

    Model.Frequencies frequencies = own.ropeFrequencies(0, 0);
    assertEquals(0.1, frequencies.values()[1], 1e-12);
    ByteBuffer table = Rope.table(frequencies, longs(7, 3)), x = floats(1, 2, 3, 4);
    Rope.apply(x, DType.FLOAT32, 1, 4, 0, 0, false, table, longs(1));
    assertEquals(Math.cos(3) - 3 * Math.sin(3), x.getFloat(0), 1e-5);
    assertThrows(KvCacheException.class, () -> Rope.apply(x, DType.FLOAT32, 1, 4, 0, 0, false, table, longs(2)));
    assertThrows(IllegalArgumentException.class, () -> Rope.apply(x, DType.FLOAT32, 1, 3, 0, 0, false, table, null));
  }

  @Test
  void aStoreRotatesKeysAsApplyDoes() throws Exception {
    int tokens = slots().remaining();
    ByteBuffer table = Buffers.bytes(4 * tokens * DIM / 2), gotK = Buffers.bytes(k.capacity()), gotV = Buffers.bytes(v.capacity());
    for (int i = 0; i < tokens * DIM / 2; ++i) {
      table.putFloat(4 * i, i % 11 * 0.25f - 1);
    }
    try (Storage s = new Storage(config()); Stream stream = new Stream()) {
      for (boolean interleaved : new boolean[] {false, true}) {
        ByteBuffer rotated = Buffers.bytes(k.capacity());
        rotated.duplicate().put(k.duplicate());
        Rope.apply(rotated, DType.FLOAT32, HEADS, DIM, DIM / 2, DIM / 2, interleaved, table, null);
        Rope.Rotation rotation = new Rope.Rotation(table, null, DIM / 2, DIM / 2, interleaved);
        for (Stream queue : new Stream[] {null, stream}) {
          fill(s);
          s.store(k, v, DType.FLOAT32, slots(), 0, 1, rotation, queue);
          stream.sync();
          s.gather(gotK, gotV, DType.FLOAT32, slots(), 0, 1, null);
          assertArrayEquals(array(rotated), array(gotK));
          assertArrayEquals(array(v), array(gotV));
        }
      }
      assertThrows(KvCacheException.class,
          () -> s.store(k, v, DType.FLOAT32, slots(), 0, 1, new Rope.Rotation(table.duplicate().limit(4 * DIM / 2), null, DIM / 2, 0, false), null));
      assertThrows(KvCacheException.class, () -> s.store(k, v, DType.FLOAT32, slots(), 0, 1, new Rope.Rotation(table, null, DIM / 2, 1 + DIM / 2, false), null));
      assertThrows(IllegalArgumentException.class,
          () -> s.store(k, v, DType.FLOAT32, slots(), 0, 1, new Rope.Rotation(table, longs(0), DIM / 2, 0, false), null));
    }
  }

  @Test
  void whatIsQuantizedComesBack() throws Exception {
    int rows = 6, dim = 21;
    ByteBuffer x = randoms(rows * dim), back = Buffers.bytes(x.capacity());
    for (Quantization q : new Quantization[] {new Quantization(DType.INT8), new Quantization(DType.INT4, 8, true, false, 0),
        new Quantization(DType.INT8, 0, false, true, 0), new Quantization(DType.FLOAT8_E4M3)}) {
      ByteBuffer codes = Buffers.bytes(q.codeBytes(rows, dim)), scales = Buffers.bytes(q.scaleBytes(rows, dim));
      q.quantize(x, rows, dim, codes, scales);
      q.dequantize(codes, scales, rows, dim, back);
      assertArrayEquals(array(x), array(back), 0.7f);
      ByteBuffer again = Buffers.bytes(codes.capacity());
      q.quantize(back, rows, dim, again, scales);
      assertEquals(codes, again);
      assertThrows(IllegalArgumentException.class, () -> q.quantize(x, rows, dim + 1, codes, scales));
    }
    Quantization given = new Quantization(DType.INT8, 0, false, false, 0.5f);
    ByteBuffer codes = Buffers.bytes(3);
    given.quantize(floats(1, -2, 300), 1, 3, codes, null);
    assertEquals(-4, codes.get(1));
    assertEquals(127, codes.get(2));
  }

  @Test
  void blocksAreForgottenByTheirIds() throws Exception {
    try (Manager m = ManagerTest.small(8); Request r = m.allocate(ManagerTest.sequence(0, 13))) {
      r.commit(12);
      int[] table = r.blockTable(0);
      assertEquals(new Manager.BlockInfo(4, 4, 0, 1, 0, 0, true, 1, 0), m.blockInfo(table[1]));
      assertEquals(java.util.List.of(r.id()), m.requests());
      assertEquals(4, m.poolInfo(0).live() + m.poolInfo(0).reserved());
      assertTrue(Manager.version() >= 200);
      assertTrue(Manager.device("cpu").numProcessors() > 0);
      assertEquals(1, m.unpublishBlocks(ManagerTest.direct(table[1], -1, table[3])));
      assertEquals(4, m.probe(0, ManagerTest.direct(ManagerTest.sequence(0, 13))));
      m.check();
    }
  }
}
