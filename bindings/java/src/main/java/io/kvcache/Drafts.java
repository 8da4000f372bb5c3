// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.IntBuffer;
import java.nio.LongBuffer;
import java.util.ArrayList;
import java.util.List;

/**
 * Drafts of one or of many requests, trees or chains of guessed tokens, and their verification: kvcache/speculation.h. The arrays are copied and checked.
 * Results of the model come in rows: for each request first the row after its last known token, then a row for each of its nodes.
 */
public final class Drafts {
  private final LongBuffer offsets;
  private final IntBuffer tokens, parents;

  /**
   * Creates drafts.
   *
   * @param tokens tokens of all nodes
   * @param parents parent of each node, counted within its draft and less than the node; -1 = the last known token; null = chains
   * @param offsets [requests + 1] nodes of request r begin at offsets[r]; null = one request
   */
  public Drafts(int[] tokens, int[] parents, long[] offsets) throws KvCacheException {
    long[] from = offsets != null ? offsets.clone() : new long[] {0, tokens.length};
    if (from.length == 0 || from[from.length - 1] != tokens.length) {
      throw Sizes.invalid("offsets must end with the number of nodes, %d", tokens.length);
    }
    if (parents != null && parents.length != tokens.length) {
      throw Sizes.invalid("parents has %d elements; it needs %d", parents.length, tokens.length);
    }
    this.tokens = Buffers.of(tokens);
    this.parents = parents == null ? null : Buffers.of(parents);
    this.offsets = Buffers.longs(from.length).put(from).flip();
    Native.kvc_drafts_check(this.offsets, this.tokens, this.parents);
  }

  /** Returns the number of requests. */
  public int numRequests() {
    return offsets.limit() - 1;
  }

  /** Returns the number of nodes of all requests. */
  public int numNodes() {
    return tokens.limit();
  }

  /** Returns the number of rows that a verification needs. */
  public int numRows() {
    return numRequests() + numNodes();
  }

  /** Returns the number of a request's first node. */
  public int first(int request) {
    return (int) offsets.get(request);
  }

  /** Returns the token of a node, counted over all requests. */
  public int token(int node) {
    return tokens.get(node);
  }

  private Verdict verdict() {
    return new Verdict(Buffers.ints(numNodes()), Buffers.longs(numRequests()), Buffers.ints(numRequests()));
  }

  /** Accepts what greedy decoding would say. targetTokens: [rows] the most likely token of each row. */
  public Verdict verifyGreedy(IntBuffer targetTokens) throws KvCacheException {
    Verdict v = verdict();
    Native.kvc_verify_greedy(offsets, tokens, parents, Sizes.ints("targetTokens", targetTokens, numRows()), v.path(), v.numAccepted(), v.nextTokens());
    return v;
  }

  /** Accepts so that the tokens have exactly the distribution of the target: rejection sampling, for chains and trees. */
  public Verdict verifySampling(Probabilities from) throws KvCacheException {
    Verdict v = verdict();
    Sizes.Distributions d = new Sizes.Distributions(from, numRows(), numNodes());
    Native.kvc_verify_sampling(offsets, tokens, parents, from.flags(), from.vocab, d.p(), d.pIds(), d.pWidth(), d.q(), d.qIds(), d.qWidth(), from.numQRows,
        d.qRows(), d.uniforms(), v.path(), v.numAccepted(), v.nextTokens());
    return v;
  }

  /**
   * Accepts what is likely enough (Medusa: epsilon 0.09, delta 0.3): nodes with p above min(epsilon, delta * exp(-entropy of p)), the longest path of them.
   * The tokens do not have the distribution of the target. q and qRows are not used.
   */
  public Verdict verifyTypical(Probabilities from, double epsilon, double delta) throws KvCacheException {
    Verdict v = verdict();
    Sizes.Distributions d = new Sizes.Distributions(from, numRows(), numNodes());
    Native.kvc_verify_typical(offsets, tokens, parents, from.flags(), from.vocab, d.p(), d.pIds(), d.pWidth(), d.uniforms(), epsilon, delta, v.path(),
        v.numAccepted(), v.nextTokens());
    return v;
  }

  /**
   * Returns the moves that bring accepted nodes together, for {@link Storage#moveTokens}.
   *
   * @param starts [requests] position of each draft's first node
   * @param blockTables [requests][entries]
   */
  public List<Manager.TokenCopy> moves(Verdict verdict, LongBuffer starts, IntBuffer blockTables, int blockSize, int group) throws KvCacheException {
    long requests = numRequests(), entries = entries(blockTables);
    ByteBuffer records = Buffers.bytes(Math.multiplyExact(24, numNodes()));
    long[] count = new long[1];
    Native.kvc_verdict_moves(offsets, tokens, parents, path(verdict), numAccepted(verdict), group, Sizes.count("blockSize", blockSize),
        Sizes.longs("starts", starts, requests), Sizes.ints("blockTables", blockTables, requests, entries), entries, records, count);
    List<Manager.TokenCopy> moves = new ArrayList<>();
    ByteBuffer from = records.order(ByteOrder.nativeOrder());
    for (long i = 0; i < count[0]; ++i) {
      moves.add(new Manager.TokenCopy(from.getInt(), from.getInt(), from.getInt(), from.getInt(), from.getInt(), from.getInt()));
    }
    return moves;
  }

  /**
   * Returns the copies that bring groups of recurrent state to the end of the accepted tokens, for {@link Storage#copyBlocks} before the commit: a source and a
   * destination for each request.
   *
   * @param starts [requests] position of each draft's first node, at least 1
   * @param blockTables [requests][entries] of the group
   * @param states [rows] the block of the engine's own with the state after each row's token, such as {@link Manager#acquireBlocks} gives; -1 = none
   */
  public IntBuffer states(Verdict verdict, LongBuffer starts, IntBuffer blockTables, int blockSize, IntBuffer states) throws KvCacheException {
    long requests = numRequests(), entries = entries(blockTables);
    ByteBuffer copies = Buffers.bytes(Math.multiplyExact(8, numRequests()));
    Native.kvc_verdict_states(offsets, tokens, parents, path(verdict), numAccepted(verdict), Sizes.count("blockSize", blockSize),
        Sizes.longs("starts", starts, requests), Sizes.ints("blockTables", blockTables, requests, entries), entries, Sizes.ints("states", states, numRows()),
        copies);
    return copies.order(ByteOrder.nativeOrder()).asIntBuffer();
  }

  private long entries(IntBuffer blockTables) throws KvCacheException {
    if (blockTables == null) {
      throw Sizes.invalid("blockTables is missing");
    }
    return numRequests() == 0 ? 0 : blockTables.remaining() / numRequests();
  }

  private IntBuffer path(Verdict verdict) {
    return Sizes.ints("path", verdict.path(), numNodes());
  }

  private LongBuffer numAccepted(Verdict verdict) {
    return Sizes.longs("numAccepted", verdict.numAccepted(), numRequests());
  }

  void count(LongBuffer acceptance, Verdict verdict) throws KvCacheException {
    Native.kvc_acceptance_add(acceptance, offsets, tokens, parents, path(verdict), numAccepted(verdict));
  }
}
