// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import java.nio.ByteBuffer;
import java.nio.IntBuffer;
import java.util.Arrays;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/** The lines of a scenario about speculation: the draft, its last verdict, counts and n-grams. */
final class SpeculationScenario {
  private final Acceptance counts = new Acceptance();
  private Drafts drafts;
  private Verdict verdict;
  private Draft index;

  private static int[] from(int[] a, int first) {
    return Arrays.copyOfRange(a, first, a.length);
  }

  private static String list(long... values) {
    return Arrays.stream(values).mapToObj(value -> " " + value).collect(Collectors.joining());
  }

  private static String list(int[] values) {
    return list(Arrays.stream(values).asLongStream().toArray());
  }

  private String verified(Verdict made) {
    verdict = made;
    int accepted = (int) made.numAccepted().get(0);
    return list(accepted) + list(IntStream.range(0, accepted).map(i -> made.path().get(i)).toArray()) + list(made.nextTokens().get(0));
  }

  private Probabilities rows(int[] uniforms) {
    int rows = drafts.numRows();
    ByteBuffer p = Buffers.bytes(16 * rows), numbers = Buffers.bytes(8 * rows);
    for (int row = 0; row < rows; ++row) {
      for (int i = 0; i < 3; ++i) {
        p.putFloat(16 * row + 4 * ((row + i) % 4), i == 0 ? 0.5f : 0.25f);
      }
      numbers.putDouble(8 * row, uniforms[row] / 100.0);
    }
    return new Probabilities(4, p, numbers);
  }

  private String drawn(int[] uniforms) throws KvCacheException {
    Probabilities rows = rows(uniforms);
    rows.q = Buffers.bytes(16);
    for (int i = 0; i < 4; ++i) {
      rows.q.putFloat(4 * i, 0.25f);
    }
    rows.numQRows = 1;
    rows.qRows = Buffers.longs(drafts.numNodes());
    return verified(drafts.verifySampling(rows));
  }

  private String tree(int[] a) throws KvCacheException {
    int[] tokens = IntStream.range(0, a.length / 2).map(i -> a[2 * i + 1]).toArray(), parents = IntStream.range(0, a.length / 2).map(i -> a[2 * i]).toArray();
    drafts = new Drafts(tokens, parents, null);
    return "";
  }

  private String moves(int[] a) throws KvCacheException {
    return drafts.moves(verdict, Buffers.longs(1).put(0, a[0]), Buffers.of(from(a, 2)), a[1], 0).stream()
        .map(m -> " " + m.source() + "+" + m.offset() + ">" + m.destination() + "+" + m.newOffset() + "*" + m.numTokens()).collect(Collectors.joining());
  }

  private String states(int[] a) throws KvCacheException {
    int n = a[2];
    IntBuffer copies = drafts.states(verdict, Buffers.longs(1).put(0, a[0]), Buffers.of(Arrays.copyOfRange(a, 3, 3 + n)), a[1], Buffers.of(from(a, 3 + n)));
    return " " + copies.get(0) + ">" + copies.get(1);
  }

  private String counted() throws KvCacheException {
    counts.add(drafts, verdict);
    return list(counts.numDrafts(), counts.numNodes(), counts.numAccepted(), counts.tried(0), counts.accepted(0), counts.tried(1), counts.accepted(1));
  }

  private String length(int[] a) throws KvCacheException {
    Acceptance.Length best = counts.bestLength(Arrays.stream(a).mapToDouble(cost -> cost / 100.0).toArray());
    return list(best.nodes(), (long) (best.numTokens() * 1e6 + 0.5));
  }

  private String propose(int[] a) throws KvCacheException {
    Drafts made = index.propose(new int[] {a[0]}, new int[] {a[1]});
    return list(IntStream.range(0, made.numNodes()).map(made::token).toArray());
  }

  String line(String word, int[] a) throws KvCacheException {
    switch (word) {
      case "halved" -> counts.halve();
      case "index" -> index = new Draft(2, a[0], a[1], 0);
      case "learn" -> index.append(a[0], from(a, 1));
      case "unlearn" -> index.truncate(a[0], a[1]);
      default -> {
        return answer(word, a);
      }
    }
    return "";
  }

  private String answer(String word, int[] a) throws KvCacheException {
    return switch (word) {
      case "tree" -> tree(a);
      case "greedy" -> verified(drafts.verifyGreedy(Buffers.of(a)));
      case "sampled" -> verified(drafts.verifySampling(rows(a)));
      case "drawn" -> drawn(a);
      case "typical" -> verified(drafts.verifyTypical(rows(from(a, 2)), a[0] / 100.0, a[1] / 100.0));
      case "moves" -> moves(a);
      case "states" -> states(a);
      case "counted" -> counted();
      case "length" -> length(a);
      case "propose" -> propose(a);
      case "lookup" -> list(Draft.lookup(Buffers.of(from(a, 3)), a[0], a[1], a[2]));
      default -> throw new IllegalArgumentException("no such line: " + word);
    };
  }
}
