// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

/**
 * What a call costs from Java, beside the same through the native layer alone:
 * java -cp build/release/lib/kvcache.jar:build/release/bindings/java/test-classes io.kvcache.CallCost
 */
final class CallCost {
  interface Call {
    void run() throws KvCacheException;
  }

  static double best(Call call) throws KvCacheException {
    double best = Double.MAX_VALUE;
    for (int round = 0; round < 12; ++round) {
      long begin = System.nanoTime();
      for (int i = 0; i < 1_000_000; ++i) {
        call.run();
      }
      best = Math.min(best, (System.nanoTime() - begin) / 1e6);
    }
    return best;
  }

  public static void main(String[] arguments) throws KvCacheException {
    try (Manager m = new Manager(64)) {
      Request r = m.allocate(new int[40]);
      r.commit(40);
      long address = m.handle.enter();
      System.out.printf("native commit: %.1f ns%n", best(() -> Native.kvc_manager_commit_tokens(address, r.id(), 40)));
      System.out.printf("commit: %.1f ns%n", best(() -> r.commit(40)));
      System.out.printf("native version: %.1f ns%n", best(Native::kvc_version));
      m.handle.exit();
    }
  }
}
