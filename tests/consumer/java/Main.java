// SPDX-License-Identifier: Apache-2.0
import io.kvcache.Config;
import io.kvcache.Manager;
import io.kvcache.NoSpaceException;
import io.kvcache.Request;
import io.kvcache.RequestOptions;

/** A program that knows the jar alone: two blocks hold one request of 20 tokens and not a second one. */
public class Main {
  public static void main(String[] arguments) throws Exception {
    try (Manager manager = new Manager(new Config().numBlocks(2));
        Request first = manager.allocate(new int[20], new RequestOptions())) {
      try (Request second = manager.allocate(new int[20])) {
        System.out.println("two requests in the room of one: " + second.cached());
        System.exit(1);
      } catch (NoSpaceException expected) {
        System.out.println(expected.getMessage());
      }
    }
  }
}
