// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;

/** What the KV cache of a model depends on: kvc_model. Use a preset ({@link #find}), or describe it. */
public final class Model extends ModelCalls {
  final kvc_model c = new kvc_model();

  private Model() {
    kvc_model own = c;
    Manager.CLEANER.register(this, own::delete);
  }

  /** Describes a model: layers with a KV cache, KV heads, elements of a key, tokens of the longest sequence. */
  public Model(int numLayers, int numKvHeads, int headDim, long maxContext) {
    this();
    c.setNum_layers(Sizes.count("numLayers", numLayers));
    c.setNum_kv_heads(Sizes.count("numKvHeads", numKvHeads));
    c.setHead_dim(Sizes.count("headDim", headDim));
    c.setMax_context(Sizes.count("maxContext", maxContext));
  }

  /** A sliding window of this many tokens in these layers; no layers = all. */
  public Model window(long tokens, int... layers) {
    c.setWindow_tokens(Sizes.count("tokens", tokens));
    for (int layer : layers) {
      c.set_window(checkLayer(layer));
    }
    return this;
  }

  /** A recurrent state of so many elements, of its convolution and its recurrence, in place of keys and values in these layers. */
  public Model states(long convElements, long recurrentElements, int... layers) {
    c.setConv_elements(Sizes.count("convElements", convElements));
    c.setRecurrent_elements(Sizes.count("recurrentElements", recurrentElements));
    for (int layer : layers) {
      c.set_state(checkLayer(layer));
    }
    return this;
  }

  /** Layers that also read keys and values of encoder tokens: cross-attention. */
  public Model encoder(long tokens, int numLayers, int numKvHeads, int headDim) {
    c.setCross_tokens(Sizes.count("tokens", tokens));
    c.setNum_cross_layers(Sizes.count("numLayers", numLayers));
    c.setCross_kv_heads(Sizes.count("numKvHeads", numKvHeads));
    c.setCross_head_dim(Sizes.count("headDim", headDim));
    return this;
  }

  private static int checkLayer(int layer) {
    if (layer < 0 || layer >= Native.KVC_MODEL_MAX_LAYERS) {
      throw Sizes.invalid("no layer %d; a model has at most %d layers", layer, Native.KVC_MODEL_MAX_LAYERS);
    }
    return layer;
  }

  /** Base of the rotary embedding, and elements that rotate (0 = all). */
  public Model rope(double theta, int dim) {
    c.setRope_theta(theta);
    c.setRope_dim(Sizes.count("dim", dim));
    return this;
  }

  /** Returns the preset with this name, alias or repository, or the registered model of this name. The message of a failure has the nearest names. */
  public static Model find(String name) throws KvCacheException {
    Model model = new Model();
    Native.kvc_model_find(name, model.c);
    return model;
  }

  /**
   * Registers a copy of the model under a name: {@link #find} and {@link #all} know it from now on, in the whole process. It replaces the registered
   * model of that name. A failure is a name of a preset, a name that is not 1 to 63 printable ASCII characters without spaces, a field out of range, or
   * a 257th name.
   *
   * @return this model, which has the name now
   */
  public Model register(String name) throws KvCacheException {
    int bytes = name.getBytes(StandardCharsets.UTF_8).length;
    if (bytes > 63) {
      throw Sizes.invalid("name has %d bytes; at most 63", bytes);
    }
    String before = name();
    c.setName(name);
    try {
      Native.kvc_model_register(c);
    } catch (KvCacheException refused) {
      c.setName(before);
      throw refused;
    } finally {
      Reference.reachabilityFence(this);
    }
    return this;
  }

  /** Reads the text of a Hugging Face config.json. The message of a failure names the field, its value and the fix. */
  public static Model fromConfig(String json) throws KvCacheException {
    Model model = new Model();
    byte[] text = json.getBytes(StandardCharsets.UTF_8);
    Native.kvc_model_from_config(Buffers.copy(text), model.c);
    return model;
  }

  /** Returns all presets, and then the registered models. */
  public static List<Model> all() throws KvCacheException {
    List<Model> models = new ArrayList<>();
    for (long i = 0; i < Native.kvc_model_count(); ++i) {
      Model model = new Model();
      Native.kvc_model_get(i, model.c);
      models.add(model);
    }
    return models;
  }

  /** The struct lives as long as this object, also while its native getter runs. */
  private <T> T get(Function<kvc_model, T> getter) {
    T value = getter.apply(c);
    Reference.reachabilityFence(this);
    return value;
  }

  public String name() {
    return get(kvc_model::getName);
  }

  public int numLayers() {
    return get(kvc_model::getNum_layers);
  }

  public int numQHeads() {
    return get(kvc_model::getNum_q_heads);
  }

  public int numKvHeads() {
    return get(kvc_model::getNum_kv_heads);
  }

  public int headDim() {
    return get(kvc_model::getHead_dim);
  }

  /** Elements stored per layer and token instead of keys and values; 0 = keys and values are stored. */
  public int latentDim() {
    return get(kvc_model::getLatent_dim);
  }

  public int vocabSize() {
    return get(kvc_model::getVocab_size);
  }

  public long maxContext() {
    return get(kvc_model::getMax_context);
  }

  public long windowTokens() {
    return get(kvc_model::getWindow_tokens);
  }

  /** What windowTokens is: 0 or 1 = tokens of a sliding window, 2 = tokens of a chunk of chunked local attention. */
  public int windowKind() {
    return get(kvc_model::getWindow_kind);
  }

  /** Whether a layer has the window. */
  public boolean hasWindow(int layer) {
    return get(m -> m.has_window(layer)) != 0;
  }

  /** Whether a layer has a recurrent state in place of keys and values. */
  public boolean hasState(int layer) {
    return get(m -> m.has_state(layer)) != 0;
  }

  /** Elements of a layer's state that its convolution keeps. */
  public long convElements() {
    return get(kvc_model::getConv_elements);
  }

  /** Elements of a layer's state that its recurrence keeps. */
  public long recurrentElements() {
    return get(kvc_model::getRecurrent_elements);
  }

  /** Encoder tokens that cross-attention reads; 0 = the model has none. */
  public long crossTokens() {
    return get(kvc_model::getCross_tokens);
  }

  /** Question of {@link #estimate}. 0 is the default of each number: the longest sequence, 1 sequence, no budget, 16 tokens per block.
   * device is that of memoryFraction; null = the CPU. checkpointTokens: of models with a state, tokens between copies of it; 0 = no copies.
   * retentionTokens: of layers with a window or chunks, that of their {@link Config.Group}, a multiple of the block size; 0 = the block size;
   * {@link #NO_RETENTION} = only hits at the ends of prompts and requests, which is a group's 0. */
  public record Query(DType dtype, long tokens, long numSequences, long budgetBytes, int blockSize, int scaleGroup, float memoryFraction,
      String device, long checkpointTokens, long retentionTokens) {
    /** As retentionTokens: none. */
    public static final long NO_RETENTION = Long.MAX_VALUE;

    /** With the default retentionTokens. */
    public Query(DType dtype, long tokens, long numSequences, long budgetBytes, int blockSize, int scaleGroup, float memoryFraction, String device,
        long checkpointTokens) {
      this(dtype, tokens, numSequences, budgetBytes, blockSize, scaleGroup, memoryFraction, device, checkpointTokens, 0);
    }

    /** Without copies of states. */
    public Query(DType dtype, long tokens, long numSequences, long budgetBytes, int blockSize, int scaleGroup, float memoryFraction, String device) {
      this(dtype, tokens, numSequences, budgetBytes, blockSize, scaleGroup, memoryFraction, device, 0);
    }

    /** One sequence of this many tokens in a type. */
    public Query(DType dtype, long tokens) {
      this(dtype, tokens, 0, 0, 0, 0);
    }

    /** Without a fraction of memory. */
    public Query(DType dtype, long tokens, long numSequences, long budgetBytes, int blockSize, int scaleGroup) {
      this(dtype, tokens, numSequences, budgetBytes, blockSize, scaleGroup, 0, null);
    }

    /** What fits into this many bytes. */
    public static Query ofBudget(DType dtype, long bytes) {
      return new Query(dtype, 0, 0, bytes, 0, 0);
    }

    /** What fits into a part of the free memory of a device: above 0 and at most 1; null = the CPU. */
    public static Query ofFraction(DType dtype, float fraction, String device) {
      return new Query(dtype, 0, 0, 0, 0, 0, fraction, device);
    }
  }

  /** A query of C, which the caller deletes. */
  static kvc_memory_query query(Query query) {
    kvc_memory_query q = new kvc_memory_query();
    q.setDtype(query.dtype.code);
    q.setTokens(Sizes.count("tokens", query.tokens));
    q.setNum_sequences(Sizes.count("numSequences", query.numSequences));
    q.setBudget_bytes(Sizes.count("budgetBytes", query.budgetBytes));
    q.setBlock_size(Sizes.count("blockSize", query.blockSize));
    q.setScale_group(Sizes.count("scaleGroup", query.scaleGroup));
    q.setMemory_fraction(query.memoryFraction);
    q.setCheckpoint_tokens(Sizes.count("checkpointTokens", query.checkpointTokens));
    q.setRetention_tokens(Sizes.count("retentionTokens", query.retentionTokens));
    if (query.device != null) {
      q.setDevice(query.device);
    }
    return q;
  }

  /** Computes the memory of sequences and, with a budget, what fits. */
  public Estimate estimate(Query query) throws KvCacheException {
    try (kvc_memory_query q = query(query); kvc_memory_estimate e = new kvc_memory_estimate()) {
      Native.kvc_estimate_memory(c, q, e);
      return Estimate.read(e);
    } finally {
      Reference.reachabilityFence(this);
    }
  }

  /** Radians per position of each pair of a layer's rotary embedding, and the attention factor, for {@link Rope#table}. */
  public record Frequencies(double[] values, double attentionFactor) {}

  /**
   * Returns the frequencies of a layer: kvc_model_rope.
   *
   * @param length tokens of the sequence, for dynamic scaling
   * @param factors from the model's config.json, for LongRoPE; otherwise none
   */
  public Frequencies ropeFrequencies(int layer, long length, double... factors) throws KvCacheException {
    Sizes.count("layer", layer);
    Sizes.count("length", length);
    int pairs = (c.getRope_dim() == 0 ? headDim() : c.getRope_dim()) / 2;
    if (factors.length != 0 && factors.length != pairs) {
      throw new IllegalArgumentException("there are " + factors.length + " factors; the model rotates " + pairs + " pairs");
    }
    ByteBuffer given = factors.length == 0 ? null : Buffers.bytes(8 * pairs);
    if (given != null) {
      given.asDoubleBuffer().put(factors);
    }
    ByteBuffer out = Buffers.bytes(8 * Math.max(0, Math.min(pairs, 65536))), factor = Buffers.bytes(8);
    Native.kvc_model_rope(c, layer, length, given, out, factor);
    Reference.reachabilityFence(this);
    double[] values = new double[pairs];
    out.asDoubleBuffer().get(values);
    return new Frequencies(values, factor.getDouble(0));
  }
}
