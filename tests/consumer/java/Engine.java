// SPDX-License-Identifier: Apache-2.0
import io.kvcache.Config;
import io.kvcache.KvCacheException;
import io.kvcache.Manager;
import io.kvcache.Status;
import io.kvcache.Step;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Comparator;
import java.util.Deque;
import java.util.Objects;

/**
 * An engine with one call per step: a batch decodes, finished requests leave, new ones come, and the youngest one is preempted if there is no
 * space. It is synchronous: the kernels of a step finish before the next one.
 */
public class Engine {
  static final int BATCH = 4, PROMPT = 40, END = 100, REQUESTS = 12;

  /** A request of a user, in order of arrival. */
  static final class Sequence {
    final int number;
    long id; // 0 until it is admitted for the first time
    final int[] tokens = new int[END]; // the prompt and what the model said; the KV of all but the last is written
    int length = PROMPT;

    Sequence(int number) {
      this.number = number;
      Arrays.setAll(tokens, t -> number / 4 * 1000 + t); // four have the same prompt
    }

    void sample() {
      tokens[length++] = 7; // what the model says
    }
  }

  public static void main(String[] arguments) throws KvCacheException {
    try (Manager manager = new Manager(new Config().numBlocks(20)); // blocks of 16 tokens, fewer than the batch needs
        Step step = new Step(manager, new Step.Limits(BATCH, BATCH, BATCH, (END + 15) / 16, BATCH, 1, PROMPT))) {
      step.use(Step.ROWS, true); // a request keeps its row from step to step
      Deque<Sequence> waiting = new ArrayDeque<>();
      for (int i = 0; i < REQUESTS; ++i) {
        waiting.add(new Sequence(i));
      }
      Sequence[] rows = new Sequence[BATCH], items = new Sequence[BATCH]; // by row of the block tables; by item of the step
      Sequence victim = null;
      long id = 0, reused = 0;
      for (int done = 0; done < REQUESTS;) {
        int frees = 0, preempts = 0, requests = 0, tokens = 0, vacant = -1;
        for (int row = 0; row < BATCH; ++row) {
          Sequence q = rows[row];
          if (q == null) {
            vacant = row;
            continue;
          }
          int i = requests++;
          items[i] = q;
          step.requests().put(i, q.id);
          step.rows().put(i, row);
          step.committed().put(i, q.length - 1);
          if (q.length == END) { // committed and freed
            step.frees().put(frees++, q.id);
            rows[row] = null;
            ++done;
          } else if (q == victim) { // committed and preempted
            step.preempts().put(preempts++, q.id);
            rows[row] = null;
            waiting.addFirst(q);
          } else { // extended by the token that is computed in this step
            step.extendTokens().put(tokens++, q.tokens[q.length - 1]);
          }
          step.extendOffsets().put(i + 1, tokens);
        }
        Sequence next = vacant >= 0 && victim == null ? waiting.peek() : null;
        if (next != null) {
          step.admitRequests().put(0, next.id);
          step.rows().put(requests, vacant);
          if (next.id == 0) {
            step.admitTokens().put(0, next.tokens, 0, PROMPT);
            step.admitOffsets().put(1, PROMPT);
          }
        }
        id = step.counts(requests, frees, preempts, 0, next == null ? 0 : 1).run(id); // the kernels of the last step have finished
        victim = null;
        for (int i = 0; i < requests; ++i) {
          Status status = Status.of(step.status().get(frees + preempts + i));
          if (status == Status.NO_SPACE) { // committed, not extended: it tries again when the youngest has left
            victim = Arrays.stream(rows).filter(Objects::nonNull).max(Comparator.comparingInt(q -> q.number)).orElseThrow();
          } else if (status != Status.OK) {
            throw new IllegalStateException("item " + i + ": " + status);
          } else if (rows[step.rows().get(i)] == items[i]) {
            items[i].sample(); // the kernels: write to slot step.slots().get(offset of i), read step.row(0, row)
          }
        }
        if (next == null || Status.of(step.status().get(frees + preempts + requests)) == Status.NO_SPACE) {
          continue;
        }
        waiting.remove(); // the kernels: its tokens from step.cached() on, to the blocks of step.row(0, vacant)
        rows[vacant] = next;
        reused += step.cached().get(0);
        if (next.id == 0) { // after a preemption the next token is there already
          next.sample();
        }
        next.id = step.admitted().get(0);
      }
      manager.check();
      System.out.println(REQUESTS + " done, " + reused + " tokens reused, " + manager.stats().preemptions() + " preempted");
    }
  }
}
